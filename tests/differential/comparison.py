"""What two directories of the same operation have in common, and which differences are no surprise.

Compared as bytes: logs, the three indexes, the leader epochs. Snapshots as sets of entries, because the order of a Java
hash map means nothing. Times of change of logs, which are state, where both have the same bytes as before or a cleaner
wrote them. The state of the log. Where one refuses the other must, too.

Named, and counted:

    recompressed-zstd  a batch that holds the same: before 4.4 Kafka brings an older version of the library. Its header
                     is equal but for length and CRC; after it indexes name other positions
    nothing-cleanable  a round over no whole dirty segment: the cleaner's manager never begins one, we refuse it
    damage-kept      segments that fail their checksums in the range of a round: the cleaner does not look at checksums
                     and writes such batches again with right ones, or ends; we leave those segments as they are
    damage-seen      the same in the active segment, where ours knows of the log only what is before the damage
    index-full       Kafka's cleaner ends because what it writes needs more index entries than a small
                     `segment.index.bytes` has room for; ours are not bounded by it
    lost-transaction a start that Kafka ends with "Attempted to complete transaction which was not started": where
                     batches are in a log twice, it forgets a transaction that its entry for the producer still has
                     open. Ours starts
    wrapper-opened   a start that Kafka 4.1 ends with what a decompressor throws: where a segment without an index
                     follows a damaged wrapper, it opens the wrapper before it verifies it. 3.9, 4.4 and ours start.
                     Also a round that Kafka 4.4 ends for that reason, where the wrapper is in the active segment
    half-entry       an offset index of an earlier segment that ends in half an entry: Kafka cuts it off if something
                     made it look into that index meanwhile, ours leaves it

Not a difference:

    index files of no bytes beside a log of no bytes: before 4.4 Kafka makes them when it first needs them

Nothing of this module is from the code under test but the decompressors.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from logcore.records.compression import Codec, decompress
from tests.differential.directories import Files
from tests.differential.trials import Left, Trial

_COMPARED = (".log", ".index", ".timeindex", ".txnindex")
_EPOCHS = "leader-epoch-checkpoint"
_V2 = struct.Struct(">qiibIhiqqqhii")
_OLD = struct.Struct(">qiIbb")
_LIMIT = 64 << 20
_OFFSET_ENTRY = 8
_KAFKA_ALONE_ENDS = {
    "index-full": "Attempt to append to a full (time )?index",
    "lost-transaction": "Attempted to complete transaction .* which was not started",
    "wrapper-opened": r"DeepRecordsIterator.*(searchForOffsetFromPosition|LegacyFileChannelRecordBatch\.baseOffset)",
}
"""Words of what Kafka throws where ours goes on."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """differences: each in words, none if all is equal. named: how often which known difference was met."""

    differences: tuple[str, ...]
    named: Counter[str] = field(default_factory=Counter)


def compare(trial: Trial, kafka: Left, ours: Left) -> Comparison:
    """What differs between what Kafka left and what we leave."""
    if kafka.is_nothing_cleanable and ours.is_nothing_cleanable:
        return Comparison((), Counter({"nothing-cleanable": 1}))
    if ours.damaged:
        return _damage_kept(trial, ours)
    if kafka.refusal is not None and ours.refusal is None:
        known = next((name for name, words in _KAFKA_ALONE_ENDS.items() if re.search(words, kafka.refusal)), None)
        if known is not None:
            return Comparison((), Counter({known: 1}))
    if kafka.refusal is None and ours.is_nothing_cleanable and trial.injuries:
        # A transaction is open before the damage, and its marker is after the damage: its offsets stay dirty.
        return Comparison((), Counter({"damage-seen": 1}))
    if (kafka.refusal is None) != (ours.refusal is None):
        return Comparison((f"refusal: Kafka's {kafka.refusal!r}, ours {ours.refusal!r}",))
    if kafka.refusal is not None:
        return Comparison((), Counter({"refused": 1}))
    named: Counter[str] = Counter()
    said: list[str] = []
    theirs_files, our_files = (_without_empty_indexes(left.files) for left in (kafka, ours))
    loose = {Codec.ZSTD} if trial.version != "4.4.0" else set()
    names = sorted({name for name in (*theirs_files, *our_files) if name.endswith(_COMPARED) or name == _EPOCHS})
    recompressed: set[str] = set()
    last = max((name[:20] for name in theirs_files if name.endswith(".log")), default="")
    for name in names:
        if name not in theirs_files or name not in our_files:
            said.append(f"{name}: {'only ours' if name in our_files else 'only Kafka’s'}")
            continue
        theirs, mine = bytes(theirs_files[name].content), bytes(our_files[name].content)
        if theirs != mine and name.endswith(".log"):
            counts, words = _same_batches(theirs, mine, loose)
            if words is None:
                named.update(counts)
                recompressed.add(name[:20])
            else:
                said.append(f"{name}: {words}")
    for name in names:
        if name.endswith(".log") or name not in theirs_files or name not in our_files or name[:20] in recompressed:
            continue
        theirs, mine = bytes(theirs_files[name].content), bytes(our_files[name].content)
        if _is_half_entry(name, last, theirs, mine):
            named["half-entry"] += 1
        elif theirs != mine:
            said.append(f"{name}: {len(theirs)} bytes of Kafka's, {len(mine)} of ours, {_first(theirs, mine)}")
    said_of_end = list(_snapshots(theirs_files, our_files))
    said += _times(trial, theirs_files, our_files)
    for what in ("log_start_offset", "log_end_offset", "first_dirty_offset"):
        theirs_value, our_value = getattr(kafka, what), getattr(ours, what)
        words = said_of_end if what == "log_end_offset" else said
        if theirs_value is not None and our_value is not None and theirs_value != our_value:
            words.append(f"{what}: Kafka's {theirs_value}, ours {our_value}")
    if said_of_end and trial.operation.startswith("clean") and trial.injuries:
        named["damage-seen"] += 1
    else:
        said += said_of_end
    return Comparison(tuple(said), named)


def _damage_kept(trial: Trial, ours: Left) -> Comparison:
    names = [f"{base:020d}.log" for base in ours.damaged]
    changed = [name for name in names if name not in ours.files or ours.files[name] != trial.files[name]]
    if changed:
        return Comparison((f"damaged, and not left alone: {', '.join(changed)}",))
    return Comparison((), Counter({"damage-kept": len(names)}))


def _is_half_entry(name: str, last: str, theirs: bytes, ours: bytes) -> bool:
    whole = len(ours) // _OFFSET_ENTRY * _OFFSET_ENTRY
    return name.endswith(".index") and name[:20] < last and len(ours) > whole and ours[:whole] == theirs


def _without_empty_indexes(files: Files) -> Files:
    empty = {name[:20] for name, file in files.items() if name.endswith(".log") and not file.content}
    return {
        name: file
        for name, file in files.items()
        if not (name[:20] in empty and name.endswith((".index", ".timeindex")) and not file.content)
    }


def _snapshots(theirs: Files, ours: Files) -> Iterator[str]:
    names = sorted({name for name in (*theirs, *ours) if name.endswith(".snapshot")})
    for name in names:
        if name not in theirs or name not in ours:
            yield f"{name}: {'only ours' if name in ours else 'only Kafka’s'}"
            continue
        content, our_content = (bytes(files[name].content) for files in (theirs, ours))
        if content != our_content:  # damaged ones may stay as they are
            known, mine = _entries(content), _entries(our_content)
            if known != mine:
                yield f"{name}: Kafka's alone {sorted(known - mine)}, ours alone {sorted(mine - known)}"


def _entries(content: bytes) -> set[tuple[int, ...]]:
    """Whole entries; the count says nothing more."""
    end = len(content) - (len(content) - 10) % 46
    return {struct.unpack_from(">qhiqiqiq", content, position) for position in range(10, end, 46)}


def _times(trial: Trial, theirs: Files, ours: Files) -> Iterator[str]:
    """A log that a start or a deletion did not touch keeps its time; a cleaned one has its last source's."""
    for name, file in theirs.items():
        mine = ours.get(name)
        if not name.endswith(".log") or mine is None or not file.content:
            continue
        before = trial.files.get(name)
        is_kept = before is not None and bytes(before.content) == bytes(file.content)
        if (is_kept or trial.operation.startswith("clean")) and file.modified_ms != mine.modified_ms:
            yield f"{name}: changed at {file.modified_ms} by Kafka, at {mine.modified_ms} by ours"


def _same_batches(theirs: bytes, ours: bytes, loose: set[Codec]) -> tuple[Counter[str], str | None]:
    """How many batches were only compressed by another library, or the first difference in words."""
    counts: Counter[str] = Counter()
    at_theirs = at_ours = 0
    while at_theirs < len(theirs) and at_ours < len(ours):
        one, other = (_batch(content, at) for content, at in ((theirs, at_theirs), (ours, at_ours)))
        if one != other:
            codec = _codec(one)
            if codec is None or codec != _codec(other) or codec not in loose:
                return counts, f"batch at byte {at_theirs}, ours at {at_ours}: {_first(one, other)} ({_heading(one)})"
            words = _same_content(one, other)
            if words is not None:
                return counts, f"batch at byte {at_theirs}, ours at {at_ours}: {words} ({_heading(one)})"
            counts[f"recompressed-{codec.kafka_name}"] += 1
        at_theirs += len(one)
        at_ours += len(other)
    if at_theirs < len(theirs) or at_ours < len(ours):
        return counts, f"Kafka's has {len(theirs) - at_theirs} bytes more, ours {len(ours) - at_ours}"
    return counts, None


def _batch(content: bytes, position: int) -> bytes:
    if position + 12 > len(content):
        return content[position:]
    (size,) = struct.unpack_from(">i", content, position + 8)
    return content[position : position + 12 + size] if size > 0 else content[position:]


def _codec(batch: bytes) -> Codec | None:
    if len(batch) < 23:
        return None
    attributes = batch[22] if batch[16] == 2 else batch[17]
    return Codec(attributes & 7) if attributes & 7 <= 4 else None


def _same_content(one: bytes, other: bytes) -> str | None:
    """None if the headers are equal but for length and CRC, and the same comes out of both."""
    magic = one[16]
    if magic == 2:
        headers = [(batch[:8], batch[12:17], batch[21:61]) for batch in (one, other)]
        inside = [decompress(batch[22] & 7, batch[61:], _LIMIT) for batch in (one, other)]
    else:
        # offset, magic, attributes, timestamp, no key; then int32 size of the value
        begin = 34 if magic == 1 else 26
        headers = [(batch[:8], batch[16 : begin - 4], b"") for batch in (one, other)]
        inside = [decompress(batch[17] & 7, batch[begin:], _LIMIT, magic=magic) for batch in (one, other)]
    if headers[0] != headers[1]:
        return "another header"
    return None if inside[0] == inside[1] else "other records"


def _heading(batch: bytes) -> str:
    if len(batch) < 61 or batch[16] != 2:
        return f"{len(batch)} bytes, format {batch[16] if len(batch) > 16 else '?'}"
    base, size, epoch, _, _, attributes, delta, first, most, producer, _, _, count = _V2.unpack_from(batch)
    return (
        f"v2, offsets {base} to {base + delta}, {size + 12} bytes, attributes {attributes:#x}, {count} records, "
        f"epoch {epoch}, producer {producer}, times {first} and {most}"
    )


def _first(one: bytes, other: bytes) -> str:
    for position, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return f"first other byte at {position}: {a:#x}, ours {b:#x}"
    return f"{len(one)} bytes, ours {len(other)}"
