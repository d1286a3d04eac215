"""Topics whose rows an earlier version decoded by the same schema to other columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logcore.values.decoder import ValueDecoder
from spark_jobs.decode import decoding
from tests.jobs.decoded_lake import Decoded

TEXT, TIME = {"type": "string"}, {"type": "string", "format": "date-time"}
POLICIES = """topics:
  orders:
    decode.value: json
    decode.value.schema: order.json
"""
AT = "2024-05-17T08:30:00Z"


def schema(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties})


def decoded_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: str, now: str) -> Decoded:
    """A lake with one row of an earlier version: it made columns of the schema as this one does of another."""
    (tmp_path / "order.json").write_text(now)
    lake = Decoded(tmp_path, POLICIES)
    lake.append((None, json.dumps({"at": AT, "own": "x"}).encode()))
    decoder_of = decoding.decoder_of

    def earlier_decoder(format: str, text: str | None, **more: Any) -> ValueDecoder:
        return decoder_of(format, earlier if text == now else text, **more)

    with monkeypatch.context() as version:
        version.setattr(decoding, "decoder_of", earlier_decoder)
        decoding.decoding_of.cache_clear()
        lake.decode()
    decoding.decoding_of.cache_clear()
    return lake


@pytest.mark.parametrize(
    ("earlier", "now", "said"),
    [
        (schema(at=TEXT), schema(at=TEXT, own=TEXT), "+ value.own: string"),
        (schema(at=TEXT), schema(at=TIME), "value.at: string → timestamp"),
    ],
)
def test_a_topic_waits_if_its_schema_has_other_columns_than_in_an_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: str, now: str, said: str
) -> None:
    lake = decoded_before(tmp_path, monkeypatch, earlier, now)
    assert lake.decode().plan["topics"][0]["waits"] is None
    lake.append((None, b"{}"))
    before = lake.rows()
    waits = lake.decode().plan["topics"][0]["waits"]
    assert said in waits
    assert f"loglake decode {lake.path} --replace orders" in waits
    assert lake.rows() == before
    lake.decode(replace=("orders",))
    assert [sorted(row["value"]) for row in lake.rows()] == [sorted(json.loads(now)["properties"])] * 2
    lake.append((None, b"{}"))
    assert lake.decode().plan["topics"][0]["waits"] is None
    assert len(lake.rows()) == 3


def test_a_topic_with_the_same_columns_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = decoded_before(tmp_path, monkeypatch, schema(own=TEXT, at=TIME), schema(at=TIME, own=TEXT))
    lake.append((None, b"{}"))
    assert lake.decode().plan["topics"][0]["waits"] is None
    assert len(lake.rows()) == 2
