"""What is done to a partition directory, with all that decides what comes of it, and what Kafka made of it.

A trial is kept as an archive too: `facts.json`, the files `before`, the files `kafka` left. Nothing but the archive is
needed to hold ours against it again.
"""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import PartitionDirectory, PartitionFile
from logcore.logs.model.topic_config import TopicConfig, topic_config
from logcore.segments.filenames import TopicPartition
from tests.differential import directories
from tests.differential.directories import Files
from tests.kafka.storage_oracle import StorageOracle, Thrown

OPERATIONS = ("clean", "clean2", "recover", "retain", "tier", "write")
"""clean2: a second round over what the first left. tier: retention of a topic in tiered storage. write: `files` are
appends in the order of their names, each with its clock as time of change; there is no log before."""

_LINES = {"3.9.2": BrokerLine.V3_9, "4.1.2": BrokerLine.V4_0, "4.4.0": BrokerLine.V4_4}
_COMMANDS = {"clean2": "clean", "tier": "retain"}
_OURS_ALONE = ("min.cleanable.dirty.ratio", "log.cleaner.dedupe.buffer.size")
"""Settings that Kafka's classes take elsewhere: the manager's, and the size of a map."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One operation on one directory, by one version of Kafka. Offsets and times as in `PartitionDirectory`."""

    name: str
    version: str
    operation: str
    config: dict[str, str]
    as_of_ms: int
    log_start_offset: int
    recovery_point: int | None
    high_watermark: int | None
    first_dirty_offset: int | None
    is_clean: bool
    delete_records_before: int | None
    injuries: tuple[str, ...]
    """What was done to the files, in words."""
    codecs: tuple[str, ...]
    files: Files
    highest_remote_offset: int | None = None
    """Remote storage has the log up to it; None: the broker has no tiered storage."""

    @property
    def line(self) -> BrokerLine:
        return _LINES[self.version]

    @property
    def topic_config(self) -> TopicConfig:
        return topic_config(self.config)

    def directory(self) -> PartitionDirectory:
        """As ours is given it."""
        return PartitionDirectory(
            TopicPartition("t", 0),
            self.files,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            first_dirty_offset=self.first_dirty_offset,
            is_clean=self.is_clean,
        )


@dataclass(frozen=True, slots=True)
class Left:
    """What an operation left: files, and of the log's state what root files would say. refusal: it did not work.

    is_nothing_cleanable: the cleaner's manager would not have begun a round; of a refusal, that this is the reason.
    damaged: base offsets of segments that are left alone because they are damaged; only ours does that.
    """

    files: Files
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    first_dirty_offset: int | None = None
    refusal: str | None = None
    is_nothing_cleanable: bool = False
    damaged: tuple[int, ...] = ()


def by_kafka(kafka: StorageOracle, trial: Trial, scratch: Path) -> Left:
    """What Kafka makes of it. scratch: a folder for a copy, which is gone afterwards."""
    directory = scratch / "t-0"
    directories.write(directory, {} if trial.operation == "write" else trial.files)
    request: dict[str, Any] = {
        "directory": directory,
        "now": trial.as_of_ms,
        "config": {name: value for name, value in trial.config.items() if name not in _OURS_ALONE},
        "log_start_offset": trial.log_start_offset,
        "recovery_point": trial.recovery_point,
        "high_watermark": trial.high_watermark,
        "clean_stop": trial.is_clean,
        "first_dirty_offset": trial.first_dirty_offset,
        "delete_records_before": trial.delete_records_before,
        "map_bytes": trial.config.get("log.cleaner.dedupe.buffer.size"),
        "producer_id_expiration_ms": trial.config.get("producer.id.expiration.ms"),
        "highest_remote_offset": trial.highest_remote_offset,
    }
    if trial.operation == "write":
        request["appends"] = [
            {"now": file.modified_ms, "batches": base64.b64encode(file.content).decode()}
            for file in trial.files.values()
        ]
    try:
        state = kafka.ask(_COMMANDS.get(trial.operation, trial.operation), **request)
    except Thrown as thrown:
        return Left(directories.read(directory), refusal=str(thrown))
    return Left(
        directories.read(directory),
        state["log_start_offset"],
        state["log_end_offset"],
        state.get("end_offset"),
        is_nothing_cleanable=state.get("cleanable_bytes") == 0,
    )


def keep(path: Path, trial: Trial, kafka: Left) -> None:
    """Write a trial and what Kafka left as an archive, by its suffix compressed with xz."""
    facts = asdict(replace(trial, files={})) | {"left": asdict(replace(kafka, files={}))}
    with tarfile.open(path, "w:xz", preset=9) as archive:
        _put(archive, "facts.json", json.dumps(facts, indent=1, sort_keys=True).encode(), 0)
        for folder, files in (("before", trial.files), ("kafka", kafka.files)):
            for name, file in files.items():
                _put(archive, f"{folder}/{name}", bytes(file.content), file.modified_ms)


def kept(path: Path) -> tuple[Trial, Left]:
    """What `keep` wrote."""
    folders: dict[str, Files] = {"before": {}, "kafka": {}}
    facts: dict[str, Any] = {}
    with tarfile.open(path) as archive:
        for member, content in _members(archive):
            if member.name == "facts.json":
                facts = json.loads(content)
                continue
            folder, _, name = member.name.partition("/")
            folders[folder][name] = PartitionFile(name, content, int(member.pax_headers["LOGLAKE.modified_ms"]))
    left = Left(**facts.pop("left") | {"files": folders["kafka"], "damaged": ()})
    facts = {name: facts[name] for name in (field.name for field in fields(Trial)) if name in facts}
    words = {name: tuple(facts[name]) for name in ("injuries", "codecs")}
    return Trial(**facts | words | {"files": folders["before"]}), left


def _put(archive: tarfile.TarFile, name: str, content: bytes, modified_ms: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.pax_headers = {"LOGLAKE.modified_ms": str(modified_ms)}  # an archive's own times are rounded
    archive.addfile(member, io.BytesIO(content))


def _members(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    for member in archive:
        stream = archive.extractfile(member)
        assert stream is not None
        yield member, stream.read()
