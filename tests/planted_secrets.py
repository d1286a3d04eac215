"""Secrets that tests plant into records and into the metadata of a cluster, and search for everywhere else."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

from tests import handmade

PLANTED = b"planted-"
FORMS = (PLANTED, *(base64.b64encode(PLANTED[start : start + 6]) for start in range(3)))
"""As it is, and in base64 at any place of the bytes."""


def is_planted(content: bytes) -> bool:
    return any(form in content for form in FORMS)


def compact(value: bytes) -> bytes:
    return bytes([len(value) + 1]) + value


CREDENTIAL = b"\1\x0b\0" + compact(b"alice") + b"\1" + compact(b"planted-scram") * 3 + struct.pack(">i", 4096) + b"\0"
TOKEN = (
    b"\1\x0a\0"
    + compact(b"o")
    + compact(b"r")
    + b"\1"
    + struct.pack(">qqq", 1, 2, 3)
    + compact(b"planted-token")
    + b"\0"
)
PASSWORD = b"\1\4\0\4" + compact(b"1") + compact(b"ssl.key.password") + compact(b"planted-password") + b"\0"
SETTING = b"\1\4\0\2" + compact(b"orders") + compact(b"sasl.jaas.config") + compact(b"planted-jaas") + b"\0"
TOPIC = b"\1\2\0" + compact(b"orders") + bytes(16) + b"\0"
METADATA = [
    value
    for whole in (CREDENTIAL, TOKEN, PASSWORD, SETTING)
    for value in (whole, whole[:-1], whole[:2] + b"\x63" + whole[3:])
]
"""UserScramCredentialRecord, DelegationTokenRecord and ConfigRecord 0: whole, cut, and of an unknown version."""


def write_metadata(folder: Path) -> None:
    """A metadata log with a topic, and a snapshot that covers it."""
    folder.mkdir()
    values = [TOPIC, *METADATA]
    batches = [handmade.simple_batch(at, [(None, value)], leader_epoch=1) for at, value in enumerate(values)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    rows = [(None, value) for value in (TOPIC, *METADATA[::3])]
    header = handmade.control_batch(0, struct.pack(">hh", 0, 3), struct.pack(">hq", 0, 5) + b"\0", leader_epoch=1)
    footer = handmade.control_batch(1 + len(rows), struct.pack(">hh", 0, 4), b"\0\0\0", leader_epoch=1)
    snapshot = header + handmade.simple_batch(1, rows, leader_epoch=1) + footer
    (folder / f"{len(values):020d}-{1:010d}.checkpoint").write_bytes(snapshot)
