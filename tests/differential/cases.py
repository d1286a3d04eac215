"""A log made from a seed, and what is done with it: a round of cleaning, another one, a start after a crash, retention.

All draws of a case come from its number; the version decides only who makes and changes the log.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from logcore.logs.model.partition_directory import PartitionFile
from tests.differential import directories, injuries
from tests.differential.directories import Files
from tests.differential.specifications import BEGIN_MS, Specification, specification
from tests.differential.trials import OPERATIONS, Left, Trial, by_kafka
from tests.kafka.storage_oracle import StorageOracle

_NUMBERS_A_SEED = 1_000_003


@dataclass(frozen=True, slots=True)
class _Log:
    """A generated log: its files, where it ends and when its last batch was written."""

    files: Files
    spec: Specification
    end_offset: int
    end_ms: int
    size: int

    @property
    def base_offsets(self) -> list[int]:
        return sorted(int(name[:20]) for name in self.files if name.endswith(".log"))


def trials(
    kafka: StorageOracle, seed: int, number: int, scratch: Path, operations: Sequence[str] = OPERATIONS
) -> Iterator[tuple[Trial, Left]]:
    """The trials of one case, each with what Kafka left. scratch: a folder in memory, if there is one."""
    case_seed = seed * _NUMBERS_A_SEED + number
    log = _generated(kafka, specification(case_seed), scratch)
    common = Trial(
        name=f"{kafka.version}-{seed}-{number}",
        version=kafka.version,
        operation="",
        config={**log.spec.config, "min.cleanable.dirty.ratio": "0"},
        as_of_ms=log.end_ms + 1000,
        log_start_offset=log.spec.log_start_offset,
        recovery_point=log.end_offset,
        high_watermark=log.end_offset,
        first_dirty_offset=None,
        is_clean=True,
        delete_records_before=None,
        injuries=(),
        codecs=tuple(log.spec.fields["codec"]),
        files=log.files,
    )
    cleaned: Left | None = None
    if "clean" in operations:
        first = _cleaning(random.Random(f"clean {case_seed}"), common, log)
        cleaned = by_kafka(kafka, first, scratch)
        yield first, cleaned
        if "clean2" in operations and cleaned.refusal is None:
            second = _cleaning_again(random.Random(f"clean2 {case_seed}"), first, log, cleaned)
            yield second, by_kafka(kafka, second, scratch)
    if "recover" in operations:
        started = _start(random.Random(f"recover {case_seed}"), common, log, cleaned)
        yield started, by_kafka(kafka, started, scratch)
    if "retain" in operations:
        retained = _retention(random.Random(f"retain {case_seed}"), common, log)
        yield retained, by_kafka(kafka, retained, scratch)
    if "tier" in operations:
        tiered = _tiered_retention(random.Random(f"tier {case_seed}"), common, log)
        yield tiered, by_kafka(kafka, tiered, scratch)
    if "write" in operations and log.base_offsets:
        written = _writing(random.Random(f"write {case_seed}"), common, log)
        if written.files:
            yield written, by_kafka(kafka, written, scratch)


def _writing(draw: random.Random, common: Trial, log: _Log) -> Trial:
    """The log's batches once more, some in one append, by other limits and another clock."""
    batches = [batch for base in log.base_offsets for batch in injuries.batches(log.files[f"{base:020d}.log"].content)]
    appends: Files = {}
    clock = BEGIN_MS
    while batches:
        count = draw.choice([1, 1, 1, 2, 3])
        name = f"{len(appends):05d}"
        appends[name] = PartitionFile(name, b"".join(batches[:count]), clock)
        del batches[:count]
        clock += draw.choice([0, 1000, draw.randrange(20_000)])
    config = {
        **common.config,
        "segment.bytes": str(max(int(common.config["segment.bytes"]), draw.randint(2000, 60_000))),
        "segment.ms": draw.choice(["604800000", str(draw.randint(1, 200_000))]),
        "index.interval.bytes": draw.choice(["4096", str(draw.randint(0, 3000))]),
        "segment.index.bytes": "1048576",
    }
    return replace(
        common,
        name=f"{common.name}-write",
        operation="write",
        config=config,
        as_of_ms=BEGIN_MS,
        log_start_offset=0,  # a broker begins no log elsewhere
        recovery_point=None,
        high_watermark=None,
        files=appends,
    )


def _generated(kafka: StorageOracle, spec: Specification, scratch: Path) -> _Log:
    directory = scratch / "t-0"
    directories.write(directory, {})
    directory.rmdir()
    made = kafka.ask(
        "generate",
        directory=directory,
        now=BEGIN_MS,
        config=spec.config,
        log_start_offset=spec.log_start_offset,
        specification=spec.fields,
    )
    files = directories.read(directory)
    bases = sorted({name[:20] for name in files if name.endswith(".log")})
    for number, base in enumerate(bases):
        modified_ms = spec.first_modified_ms + number * spec.modified_step_ms
        for name in (f"{base}.log", f"{base}.index", f"{base}.timeindex"):
            if name in files:
                files[name] = replace(files[name], modified_ms=modified_ms)
    return _Log(files, spec, made["log_end_offset"], made["end_ms"], made["size"])


def _cleaning(draw: random.Random, common: Trial, log: _Log) -> Trial:
    changes: dict[str, Any] = {"config": {**common.config, "cleanup.policy": "compact"}}
    bases = log.base_offsets
    if draw.randrange(3) == 0 and len(bases) > 2:  # else all is dirty; it may begin in the middle of a segment
        changes["first_dirty_offset"] = min(bases[-1], draw.choice(bases[1:]) + draw.choice([0, draw.randrange(5)]))
    if draw.randrange(6) == 0:  # a map that is full before the end
        changes["config"]["log.cleaner.dedupe.buffer.size"] = str(24 * draw.randint(4, 44))
    # Of a transaction that ended above the high watermark Kafka knows only if it has replayed the batches itself, and
    # not taken a snapshot: its last stable offset depends on that, ours does not.
    if draw.randrange(8) == 0 and not log.spec.fields["transactional"]:
        changes["high_watermark"] = draw.randint(log.spec.log_start_offset, log.end_offset)
    if draw.randrange(8) == 0:  # producers are forgotten
        changes["config"]["producer.id.expiration.ms"] = str(draw.randint(1, 200_000))
    if draw.randrange(12) == 0:
        files = dict(common.files)
        words = injuries.flip(draw, files)
        changes |= {"files": files, "injuries": (words,) if words else ()}
    return replace(common, name=f"{common.name}-clean", operation="clean", **changes)


def _cleaning_again(draw: random.Random, first: Trial, log: _Log, cleaned: Left) -> Trial:
    """Before or after the delete horizons of the first round. As nothing came in meanwhile, the checkpoint is mostly
    one that was lost or is older."""
    retention = int(first.config["delete.retention.ms"])
    bases = sorted(int(name[:20]) for name in cleaned.files if name.endswith(".log"))
    # what the classes answer where there was nothing to do is no checkpoint of the manager's
    end = None if cleaned.is_nothing_cleanable else cleaned.first_dirty_offset
    return replace(
        first,
        name=first.name + "2",
        operation="clean2",
        files=cleaned.files,
        as_of_ms=first.as_of_ms + 1000 + draw.choice([0, retention]),
        high_watermark=log.end_offset,
        first_dirty_offset=draw.choice([None, None, None, draw.choice(bases), end]),
    )


def _start(draw: random.Random, common: Trial, log: _Log, cleaned: Left | None) -> Trial:
    files = dict(log.files)
    is_clean = draw.randrange(5) == 0
    words = []
    breaks_off = draw.randrange(4) == 0
    if breaks_off and cleaned is not None and cleaned.refusal is None:
        words.append(_broken_off(draw, files, cleaned.files))
    choices = injuries.LEFT_UNDER_A_CLEAN_MARK if is_clean else injuries.LEFT_BY_A_CRASH
    words += [draw.choice(choices)(draw, files) for _ in range(draw.choice([0, 1, 1, 1, 2]))]
    point = draw.choice([0, 0, draw.choice(log.base_offsets), draw.randint(0, log.end_offset)])
    return replace(
        common,
        name=f"{common.name}-recover",
        operation="recover",
        files=files,
        recovery_point=log.end_offset if is_clean else point,
        high_watermark=None,
        is_clean=is_clean,
        injuries=tuple(word for word in words if word),
    )


def _broken_off(draw: random.Random, files: Files, cleaned: Files) -> str:
    """The files of a cleaning that broke off: a group still `.cleaned`, or renamed to `.swap`, its sources there, or
    some of them away already."""
    changed = [
        name[:20]
        for name in cleaned
        if name.endswith(".log") and name in files and cleaned[name].content != files[name].content
    ]
    if not changed:
        return "nothing to break off"
    base = draw.choice(sorted(changed))
    suffix = draw.choice([".cleaned", ".swap", ".swap"])
    later = sorted(int(name[:20]) for name in cleaned if name.endswith(".log") and name[:20] > base)
    end = later[0] if later else 1 << 62
    parts = [name for name in sorted(cleaned) if name.startswith(base) and not name.endswith(".snapshot")]
    for name in parts:
        files[name + suffix] = PartitionFile(name + suffix, cleaned[name].content, cleaned[name].modified_ms)
    gone = []
    if suffix == ".swap":
        sources = [name for name in sorted(files) if name.endswith(".log") and int(base) <= int(name[:20]) < end]
        for source in sources[: draw.randint(0, len(sources))]:
            for name in [name for name in files if name.startswith(source[:20]) and not name.endswith(".swap")]:
                gone.append(name)
                content = files.pop(name)
                if draw.randrange(2) and not name.endswith(".snapshot"):
                    deleted = name + ".deleted"
                    files[deleted] = PartitionFile(deleted, content.content, content.modified_ms)
    return f"{', '.join(parts)} as {suffix}" + (f", without {', '.join(gone)}" if gone else "")


def _retention(draw: random.Random, common: Trial, log: _Log) -> Trial:
    span = max(1, log.end_ms - BEGIN_MS)
    policy = draw.choice(["delete", "delete", "delete", "compact,delete", "compact"])
    config = {**common.config, "cleanup.policy": policy}
    config["retention.ms"] = str(int(draw.random() * span)) if draw.randrange(2) else "-1"
    config["retention.bytes"] = str(int(draw.random() * log.size)) if draw.randrange(2) else "-1"
    high_watermark = log.end_offset
    if draw.randrange(5) == 0:
        high_watermark = draw.randint(log.spec.log_start_offset, log.end_offset)
    before = None
    if policy != "compact" and draw.randrange(3) == 0:
        before = draw.randint(log.spec.log_start_offset, high_watermark)
    return replace(
        common,
        name=f"{common.name}-retain",
        operation="retain",
        config=config,
        as_of_ms=common.as_of_ms + draw.choice([0, draw.randrange(2 * span)]),
        high_watermark=high_watermark,
        delete_records_before=before,
    )


def _tiered_retention(draw: random.Random, common: Trial, log: _Log) -> Trial:
    """Retention with remote storage that has the log up to an offset, mostly the end of a segment. Some local segments
    may have gone before, so that the log begins in remote storage."""
    span = max(1, log.end_ms - BEGIN_MS)
    config = {**common.config, "cleanup.policy": draw.choice(["delete", "delete", "delete", ""])}
    config["remote.storage.enable"] = "true"
    config["remote.log.copy.disable"] = draw.choice(["false", "false", "false", "true"])
    for name, most in (("ms", span), ("bytes", log.size)):
        config[f"retention.{name}"] = str(int((0.5 + draw.random()) * most)) if draw.randrange(2) else "-1"
        config[f"local.retention.{name}"] = draw.choice(["-2", str(int(draw.random() * most / 2))])
    bases = log.base_offsets
    first = draw.choice([0, 0, *bases[:-1]])
    ends = [base - 1 for base in bases[1:]]
    copied = draw.choice([-1, *ends, log.end_offset - 1, draw.randrange(log.end_offset + 1)])
    high_watermark = log.end_offset
    if draw.randrange(5) == 0:
        high_watermark = draw.randint(log.spec.log_start_offset, log.end_offset)
    before = None
    if draw.randrange(3) == 0:
        before = draw.randint(log.spec.log_start_offset, high_watermark)
    return replace(
        common,
        name=f"{common.name}-tier",
        operation="tier",
        config=config,
        as_of_ms=common.as_of_ms + draw.choice([0, draw.randrange(2 * span)]),
        high_watermark=high_watermark,
        delete_records_before=before,
        files={name: file for name, file in log.files.items() if not name[0].isdigit() or int(name[:20]) >= first},
        highest_remote_offset=copied,
    )
