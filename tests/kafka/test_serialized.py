"""Values that confluent-kafka wrote through a real broker are decoded as its own deserializers decode them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import logcore
from logcore.cli.main import main
from logcore.values.evolution.topic_writers import SchemaNaming, topic_writers
from logcore.values.evolution.written_column import WrittenColumnDecoder
from logcore.values.prefix import KEY_HEADER, VALUE_HEADER, Framing
from logcore.values.registry.schemas_topic import TopicState, fold_schemas_topic
from logcore.values.split_column import header_column
from tests.in_process import without_spark
from tests.kafka.serialized import FORMATS, FORMS, ROWS, Serialized, SerializedTopic, written
from tests.spark.cycle import Lake

pytestmark = pytest.mark.kafka

MESSAGE = "shop.Order"
COLUMNS = ("key", "value", "headers")


@pytest.fixture(scope="module")
def serialized(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Serialized:
    return written(tmp_path_factory.mktemp("serialized"))


@pytest.fixture(scope="module")
def registry(serialized: Serialized) -> TopicState:
    rows = read(serialized, "_schemas")
    return fold_schemas_topic(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))


@pytest.fixture(params=[f"{format}-by-{form}" for format in FORMATS for form in FORMS])
def topic(request: pytest.FixtureRequest, serialized: Serialized) -> SerializedTopic:
    return next(topic for topic in serialized.topics if topic.name == request.param)


def read(serialized: Serialized, topic: str) -> pa.Table:
    """The records of a topic, from its segment files."""
    table = logcore.open_partition(serialized.log_dir / f"{topic}-0").record_batches(list(COLUMNS)).read_all()
    return table.combine_chunks()


def decoded(serialized: Serialized, registry: TopicState, topic: SerializedTopic, part: str) -> list[Any]:
    """Keys or values, decoded fast; the plain way must agree."""
    message = MESSAGE if topic.format == "protobuf" else None
    naming = SchemaNaming(topic.format, (f"{topic.name}-{part}",), Framing.HEADER_OR_PREFIX, message)
    decoder = WrittenColumnDecoder(topic_writers(registry.schemas, naming, part))
    rows = read(serialized, topic.name).to_batches()[0]
    headers = header_column(rows["headers"], KEY_HEADER if part == "key" else VALUE_HEADER)
    assert (headers is not None) == (topic.form == "header")
    fast, plain = (decoder.decode(rows[part], headers, is_plain=is_plain) for is_plain in (False, True))
    assert fast.failed == plain.failed == ()
    assert fast.values.equals(plain.values)
    return fast.values.to_pylist()


def test_values_equal_those_of_the_librarys_deserializers(
    serialized: Serialized, registry: TopicState, topic: SerializedTopic
) -> None:
    assert len(topic.values) == ROWS
    assert decoded(serialized, registry, topic, "value") == topic.values


@pytest.mark.parametrize("form", FORMS)
def test_keys_equal_those_of_the_librarys_deserializers(
    serialized: Serialized, registry: TopicState, form: str
) -> None:
    topic = next(topic for topic in serialized.topics if topic.name == f"avro-by-{form}")
    assert decoded(serialized, registry, topic, "key") == topic.keys


def test_every_schema_of_the_registry_is_found_in_its_topic(serialized: Serialized, registry: TopicState) -> None:
    # two of each of nine topics, the key of three of them, and the one that others refer to
    assert serialized.registered == len(registry.schemas.versions) == 9 * 2 + 3 + 1
    assert registry.findings == ()


def test_what_was_written_is_worth_comparing(serialized: Serialized) -> None:
    for topic in serialized.topics:
        assert topic.values.count(None) == ROWS // 9
        notes = [value["note"] for value in topic.values if value is not None]
        assert 10 < notes.count(None) < 70
        begins = {body[0] for body in read(serialized, topic.name)["value"].to_pylist() if body is not None}
        assert begins == {0} if topic.form == "id" else begins == {1} if topic.form == "guid" else len(begins) > 0


def test_the_command_decodes_the_topics_of_a_lake(serialized: Serialized, tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics:\n" + "".join(map(policy, serialized.topics)))
    lake = Lake(tmp_path / "lake")
    with without_spark():
        lake.turn(serialized.log_dir)
        assert main(["decode", str(lake.path), "--policies", str(policies)]) == 0
    for topic in serialized.topics:
        rows = DeltaTable(str(lake.path / "tables" / "decoded" / topic.name)).to_pyarrow_table().sort_by("offset")
        assert rows["offset"].to_pylist() == list(range(ROWS))
        assert rows["value"].to_pylist() == topic.values
        assert rows["key"].to_pylist() == topic.keys
        assert rows["is_tombstone"].to_pylist() == [value is None for value in topic.values]


def policy(topic: SerializedTopic) -> str:
    """The lines of a topic in `policies.yaml`."""
    lines = [f"decode.key: {'avro' if topic.format == 'avro' else 'string'}", f"decode.value: {topic.format}"]
    lines.append("decode.schemas: _schemas")
    if topic.format == "protobuf":
        lines.append(f"decode.value.message: {MESSAGE}")
    return f"  {topic.name}:\n" + "".join(f"    {line}\n" for line in lines)
