"""Values in the framing of another registry are named as such: in `undecoded` and by `decode --infer`."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from uuid import UUID

import pytest

from spark_jobs.decode.inference import proposal
from tests.jobs.registered_schemas import Registered, avro, named, zigzag

VERSION = UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63").bytes
CONTENT = zigzag(7)
GLUE, GLUE_ZLIB = b"\3\0" + VERSION + CONTENT, b"\3\5" + VERSION + zlib.compress(CONTENT)
APICURIO = b"\0" + struct.pack(">q", 1) + CONTENT
NAMES = {
    GLUE: "the framing of AWS Glue, not compressed, which is not decoded",
    GLUE_ZLIB: "the framing of AWS Glue, compressed by zlib, which is not decoded",
    b"\3\4" + VERSION: "neither 0 nor 1",
    b"\3\0" + VERSION[:-1]: "neither 0 nor 1",
    APICURIO: "an id of eight bytes, as Apicurio's serializers write, begins with zeros",
}


def test_undecoded_rows_name_the_framing(tmp_path: Path) -> None:
    lake = Registered(tmp_path)
    lake.register(1, avro({"name": "id", "type": "long"}))
    lake.append((b"good", named(1, CONTENT)), *((b"k%d" % at, body) for at, body in enumerate(NAMES)))
    made = lake.decode()
    assert made.metrics == {"decoded": 1, "undecoded": len(NAMES), "waiting": 0}
    assert made.plan.topics[0].undecoded == {
        "NO_PREFIX": 2,
        "NO_PREFIX (the framing of AWS Glue, compressed by zlib)": 1,
        "NO_PREFIX (the framing of AWS Glue, not compressed)": 1,
        "UNKNOWN_SCHEMA (an id of eight bytes, as Apicurio's serializers write)": 1,
    }
    rows = sorted(lake.rows("undecoded"), key=lambda row: row["offset"])
    assert [row["reason"] for row in rows] == ["NO_PREFIX"] * 4 + ["UNKNOWN_SCHEMA"]
    for row, said in zip(rows, NAMES.values(), strict=True):
        assert said in row["detail"]


@pytest.mark.parametrize(
    ("bodies", "said"),
    [
        (
            [GLUE, GLUE_ZLIB, GLUE],
            "all have the framing of AWS Glue, compressed by zlib (1 times), the framing of AWS Glue, not compressed "
            "(2 times): it is not decoded, and nothing is proposed",
        ),
        (
            [APICURIO, APICURIO + b"x"],
            "all begin with five bytes 0: no registry gives the id 0, and an id of eight bytes, as Apicurio's "
            "serializers write, begins with zeros; it is not decoded, and nothing is proposed",
        ),
    ],
)
def test_infer_names_the_framing_and_proposes_no_registry(bodies: list[bytes], said: str) -> None:
    made = proposal("value", bodies)
    assert (made.format, made.schema) == (None, None)
    assert made.seen[-1] == said
    assert not any("decode.schemas" in line for line in made.seen)
