"""The command that unpacks a packed segment, run as it is printed: for a file, and for an object."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from pathlib import Path

import pytest

from logcore.records.packed_files import packed_kind, unpacking
from tests import handmade

AWS = """#!/bin/sh
# Stands for `aws s3 cp FROM TO`: objects of a bucket are files below $BUCKETS.
where() { case "$1" in s3://*) echo "$BUCKETS/${1#s3://}";; *) echo "$1";; esac; }
[ "$1 $2" = "s3 cp" ] && cp "$(where "$3")" "$(where "$4")"
"""


@pytest.mark.parametrize(
    "name", ["{}/00000000000000000010.log", "s3://bucket/it's here/orders-0/00000000000000000010.log"]
)
def test_the_command_unpacks_a_packed_segment_in_its_place(name: str, tmp_path: Path) -> None:
    content = handmade.simple_batch(10, [(b"k", b"v")])
    buckets, work = tmp_path / "buckets", tmp_path / "work"
    path = name.format(tmp_path)
    file = buckets / path.removeprefix("s3://") if path.startswith("s3:") else Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    work.mkdir()
    file.write_bytes(gzip.compress(content))
    aws = tmp_path / "bin" / "aws"
    aws.parent.mkdir()
    aws.write_text(AWS)
    aws.chmod(0o755)
    kind = packed_kind(file.read_bytes())
    assert kind == "a gzip file"
    said = re.fullmatch(r"unpack it: `(.*)`", unpacking(kind, path))
    assert said is not None
    environment = {"PATH": f"{aws.parent}:{os.environ['PATH']}", "BUCKETS": str(buckets)}
    subprocess.run(said[1], shell=True, check=True, cwd=work, env=environment)
    assert file.read_bytes() == content
