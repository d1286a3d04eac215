"""Faults planted into the code, each of which must turn a test red: ``python -m tests.planted_faults [NAME ...]``.

A test that stays green whatever the code does is worth nothing. Each fault is one small edit of one file, made in a
copy of the work tree; then the tests that guard that promise run on the copy, and at least one has to fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
COPIED = (
    "logcore",
    "spark_jobs",
    "pipelines",
    "tests",
    "samples",
    "deploy",
    "pyproject.toml",
    "README.md",
    "workspace.yaml",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One edit: in `file`, `old` (which stands there once) becomes `new`; `tests` is what must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


SOURCE_CHANGES = "tests/spark/test_source_changes.py"

FAULTS = (
    Fault(
        "skip the crc",
        "logcore/segments/scan.py",
        "        if not crc_matches(self._buf, position, header):\n            message = \"the batch's crc",
        "        if False:\n            message = \"the batch's crc",
        ("tests/unit/segments",),
    ),
    Fault(
        "trust a declared size",
        "logcore/records/record.py",
        "        return None, at\n    if length > end - at:",
        "        return None, at\n    if False:",
        ("tests/unit/records",),
    ),
    Fault(
        "no cap on what a codec gives",
        "logcore/records/compression.py",
        "            if total > limit:",
        "            if False:",
        ("tests/unit/records",),
    ),
    Fault(
        "a broken lz4 checksum is forgiven in all formats",
        "logcore/records/lz4_frames.py",
        "    if checked and view[end]",
        "    if False and view[end]",
        ("tests/unit/records/test_compression.py",),
    ),
    Fault(
        "bytes behind an lz4 frame are overlooked",
        "logcore/records/lz4_frames.py",
        "    if position < len(view):",
        "    if False:",
        ("tests/unit/records/test_compression.py",),
    ),
    Fault(
        "isal alone judges gzip",
        "logcore/records/compression.py",
        "        zlib.decompressobj(-zlib.MAX_WBITS).decompress(view[deflate : deflate + _DEFLATE_TABLES], 1)\n",
        "",
        ("tests/unit/records/test_compression.py",),
    ),
    Fault(
        "offsets inside a wrapper count from its own",
        "logcore/records/legacy.py",
        "    return header.base_offset - last\n",
        "    return header.base_offset\n",
        ("tests/unit/records/test_legacy.py",),
    ),
    Fault(
        "messages inside keep their time under LogAppendTime",
        "logcore/records/legacy.py",
        "                timestamp = header.max_timestamp\n",
        "                pass\n",
        ("tests/unit/records/test_legacy.py",),
    ),
    Fault(
        "a wrapper's offset is believed",
        "logcore/records/legacy.py",
        "        if last != header.base_offset and",
        "        if False and",
        ("tests/unit/records/test_legacy.py",),
    ),
    Fault(
        "an empty value is a tombstone",
        "logcore/records/record.py",
        "    if length < 0:\n        return None, at",
        "    if length <= 0:\n        return None, at",
        ("tests/unit/records",),
    ),
    Fault(
        "drop a marker",
        "logcore/logs/transactions.py",
        "        if batch.is_control:\n            self._mark(batch)\n            return",
        "        if batch.is_control:\n            return",
        ("tests/unit/logs",),
    ),
    Fault(
        "the frontier passes a corrupt range",
        "logcore/logs/offset_ledger.py",
        "OffsetState.UNKNOWN, OffsetState.MISSING, OffsetState.CORRUPT})",
        "OffsetState.UNKNOWN, OffsetState.MISSING})",
        ("tests/unit/logs",),
    ),
    Fault(
        "a marker behind a loss decides what was open before it",
        "logcore/logs/transactions.py",
        "                    self._lose_sight(expected, batch.base_offset)",
        "                    pass",
        ("tests/unit/logs/test_transactions.py",),
    ),
    Fault(
        "a lost outcome is published",
        "logcore/logs/offset_ledger.py",
        "BLOCKING = frozenset({OffsetState.OPEN, OffsetState.UNKNOWN,",
        "BLOCKING = frozenset({OffsetState.OPEN,",
        ("tests/unit/logs/test_offset_ledger.py",),
    ),
    Fault(
        "an index entry names the first offset",
        "logcore/segments/offset_index.py",
        "        last_offset = batch.header.last_offset",
        "        last_offset = batch.header.base_offset",
        ("tests/unit/segments",),
    ),
    Fault(
        "retention takes what is exactly as old as the limit",
        "logcore/logs/retention.py",
        "if age > limit else None",
        "if age >= limit else None",
        ("tests/unit/logs",),
    ),
    Fault(
        "any history agrees with ours",
        "logcore/logs/agreement.py",
        "        tail = self.tail\n        return (header.base_offset,",
        "        tail = self.tail\n        return True or (header.base_offset,",
        ("tests/unit/logs",),
    ),
    Fault(
        "high watermark off by one",
        "spark_jobs/log_pass.py",
        "high_watermark=min(row.publish_limit(), row.next_offset)",
        "high_watermark=min(row.publish_limit() + 1, row.next_offset)",
        (SOURCE_CHANGES, "-k", "only_offsets_below"),
    ),
    Fault(
        "commit twice",
        "spark_jobs/publish.py",
        "standing = [log for log in logs if now[log.log] == log.frontier]",
        "standing = list(logs)",
        ("tests/spark/test_publish_once.py",),
    ),
    Fault(
        "a version that moved is not looked at",
        "spark_jobs/lake/commits.py",
        "        if found != guard.planned:",
        "        if False:",
        ("tests/unit/lake/test_commits.py",),
    ),
    Fault(
        "take half a batch of a segment still being written",
        "spark_jobs/segment_copy.py",
        "            if last is None:\n                return None, findings\n",
        "            end = len(content)\n            if last is None:\n                return None, findings\n",
        (SOURCE_CHANGES, "-k", "half_a_batch"),
    ),
    Fault(
        "two runs at once",
        "spark_jobs/lake/lease.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        ("tests/crash/test_kill.py", "-k", "two_runs"),
    ),
)


def turns_red(fault: Fault) -> tuple[bool, str]:
    """Plant the fault in a copy and run its tests: whether one failed, and pytest's last line."""
    with tempfile.TemporaryDirectory(prefix="fault-") as scratch:
        tree = Path(scratch, "tree")
        tree.mkdir()
        for name in COPIED:
            source = REPOSITORY / name
            if source.is_dir():
                shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, tree / name)
        edited = tree / fault.file
        text = edited.read_text()
        if text.count(fault.old) != 1:
            raise ValueError(f"{fault.name}: its text stands {text.count(fault.old)} times in {fault.file}")
        edited.write_text(text.replace(fault.old, fault.new))
        home = os.environ.get("LOGLAKE_HOME", str(REPOSITORY / ".loglake"))
        environment = os.environ | {"PYTHONPATH": str(tree), "LOGLAKE_HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *fault.tests]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 1, (failed or lines)[-1]


def main(names: list[str]) -> int:
    """Plant the named faults, or all; exit code 1 if one stayed green."""
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    green = 0
    for fault in chosen:
        red, said = turns_red(fault)
        green += not red
        print(f"{'red  ' if red else 'GREEN'}  {fault.name}: {said}", flush=True)
    print(f"{len(chosen) - green} of {len(chosen)} planted faults turned a test red")
    return 1 if green else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
