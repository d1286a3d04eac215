"""A segment of one batch in a partition directory, and what is found there."""

from pathlib import Path

from logcore.logs.model.findings import Finding
from logcore.storage.discovery import Discovery, SourceLog
from tests import handmade

TOPIC_ID = "qesnf9AHR5-Xtl7tnUTbTA"

UUID = "478272f0a33c41a18c274462e3ef6713"

BATCH = handmade.simple_batch(0, [(b"k", b"v")])


def segment(directory: Path, base_offset: int = 0, content: bytes = BATCH) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(content)
    return path


def only_log(discovery: Discovery) -> SourceLog:
    (log,) = discovery.logs
    return log


def rules(discovery: Discovery) -> list[str]:
    return [finding.rule for finding in discovery.findings]


def only(discovery: Discovery, rule: str) -> Finding:
    (finding,) = [finding for finding in discovery.findings if finding.rule == rule]
    return finding
