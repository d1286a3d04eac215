"""`loglake decode --infer`: a policy and a schema to accept, what was seen, and no guess that is not said."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import yaml

from logcore.cli import main
from spark_jobs.decode.inference import proposal
from tests import handmade
from tests.in_process import without_spark
from tests.jobs.decoded_lake import Decoded


def test_the_printed_policy_and_schema_decode_every_sampled_record(tmp_path: Path, capsys) -> None:
    lake = Decoded(tmp_path)
    first = {"id": 1, "at": "2024-05-17T08:30:00Z", "price": None, "tags": ["a"], "to": {"name": "Zoë"}, "none": None}
    second = {"id": 2, "at": "2024-05-18T08:30:00Z", "price": 1.5, "tags": [], "to": {}, "mixed": "text"}
    lake.append((b"k1", json.dumps(first).encode()), (b"k2", json.dumps(second).encode()), (b"k3", None))
    lake.append((b"k4", json.dumps(second | {"mixed": 7}).encode()))
    assert main.main(["decode", lake.path, "--infer", "orders"]) == 0
    said = capsys.readouterr().out
    assert "# key: 4 of 4 records have a key\n# key: 4 are text in UTF-8\n" in said
    assert "# value: 3 of 4 records have a value\n" in said
    assert "# value: mixed: left out, because it has 1 of type integer and 1 of type string\n" in said
    assert "# value: at: all 3 texts have the form date-time\n" in said
    assert "# value: 3 of 3 decode with the proposal\n" in said
    policy, _, schema = said.partition("\n# orders.value.json, a file beside the policies:\n")
    assert yaml.safe_load(policy) == {
        "topics": {
            "orders": {
                "decode.key": "string",
                "decode.value": "json",
                "decode.value.schema": "orders.value.json",
            }
        }
    }
    lake.policies.write_text(policy)
    (tmp_path / "orders.value.json").write_text(schema)
    assert lake.decode().metrics == {"decoded": 4, "undecoded": 0, "waiting": 0}
    values = [row["value"] for row in lake.rows()]
    assert [value and (value["id"], value["price"], value["tags"]) for value in values] == [
        (1, None, ["a"]),
        (2, 1.5, []),
        None,
        (2, 1.5, []),
    ]
    assert not {"mixed", "none"} & values[0].keys()


def test_the_share_that_does_not_decode_with_the_proposal_is_accepted_by_the_printed_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    lake = Decoded(tmp_path)
    lake.append((b"k1", b'{"id": 1}'), (b"k2", b'{"id": 2}'), *[(b"k3", b"{")] * 4)
    assert main.main(["decode", lake.path, "--infer", "orders"]) == 0
    said = capsys.readouterr().out
    policy, _, schema = said.partition("\n# orders.value.json, a file beside the policies:\n")
    proposed = yaml.safe_load(policy)["topics"]["orders"]
    assert proposed["decode.undecoded.max"] == 0.67  # 4 of 6
    (tmp_path / "orders.value.json").write_text(schema)
    run = ["run", str(lake.source.path), "--lake", lake.path, "--policies", str(lake.policies)]
    with without_spark():
        for text, code in ((policy, 0), (policy.replace("decode.undecoded.max", "#"), 1)):
            lake.policies.write_text(text)
            assert main.main(run) == code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("bodies", "name", "says"),
    [
        ([b"12", b"13"], "string", "2 are JSON documents, 0 of them objects or arrays"),
        ([b"a", "zwölf".encode()], "string", "0 are JSON documents"),
        ([b"123e4567-e89b-12d3-a456-426614174000"] * 2, "uuid", "2 of 2 decode"),
        ([struct.pack(">q", 7), struct.pack(">q", -7)], None, "long or double would fit; choose yourself"),
        ([struct.pack(">i", 7)], None, "integer or float would fit; choose yourself"),
        ([b"\0\0\0\0\x07abc\xff", b"\0\0\0\0\x07abcd"], None, "schema ids of a registry do: 7 (2 times)"),
        ([b"\xff\xfe\xfd", b"\xff"], None, "nothing is proposed"),
        ([None, None], None, "0 of 2 records have a value"),
        ([b'{"a": 1, "A": 2}'], "string", "differ by case only"),
        ([b"{}", b"{}"], "string", "no property of it has a type"),
    ],
)
def test_what_is_seen_is_said_and_what_is_doubtful_is_not_proposed(bodies, name: str | None, says: str) -> None:
    made = proposal("value", bodies)
    if says != "2 of 2 decode":
        assert any(says in line for line in made.seen), made.seen
    assert made.format == name
    assert made.schema is None


def test_objects_with_very_many_names_are_a_map_and_integers_that_are_too_large_are_numbers() -> None:
    many = proposal("value", [json.dumps({f"k{at}-{n}": n for n in range(30)}).encode() for at in range(10)])
    assert many.schema == {"type": "object", "additionalProperties": {"type": "integer"}}
    large = proposal("value", [b'{"n": 1}', b'{"n": 99999999999999999999999}'])
    assert large.schema == {"type": "object", "properties": {"n": {"type": "number"}}}


def test_a_time_whose_digits_below_microseconds_would_be_cut_is_said() -> None:
    texts = ["2024-05-17T08:30:00.123456789Z", "2024-05-17T08:30:00.5Z", "2024-05-17T08:30:00.1234560Z"]
    made = proposal("value", [json.dumps({"at": text}).encode() for text in texts])
    assert made.schema == {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    assert "at: all 3 texts have the form date-time; 1 has digits below microseconds, which would be cut" in made.seen


def test_a_damaged_value_among_json_is_counted(capsys) -> None:
    made = proposal("value", [b'{"n": 1}', b'{"n": 2}', b'{"n": '])
    assert made.format == "json"
    assert "2 of 3 decode with the proposal, 1 SYNTAX" in made.seen
    bytes_too = proposal("value", [b'{"n": 1}', b'{"n": 2}', b"\xff\xfe"])
    assert bytes_too.format == "json"
    assert "2 of 3 decode with the proposal, 1 INVALID_UTF8" in bytes_too.seen


@pytest.mark.parametrize("other", [b"plain text", b"\xff\xfe\0"])
def test_json_that_is_the_smaller_part_is_proposed_and_the_others_are_counted(other: bytes) -> None:
    made = proposal("value", [*[b'{"n": 1}'] * 62, *[other] * 126])
    assert made.schema == {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert any(line.startswith("62 of 188 decode with the proposal, 126 ") for line in made.seen), made.seen
    assert proposal("value", [b'{"n": 1}', *[other] * 10]).format != "json"


def test_a_few_arrays_among_objects_are_said_and_objects_are_proposed() -> None:
    made = proposal("value", [b"[1]", *[b'{"n": 1}'] * 18])
    assert made.schema == {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert "the whole: 18 of type object, as proposed; 1 of type array would not decode" in made.seen
    assert "18 of 19 decode with the proposal, 1 WRONG_TYPE" in made.seen


def test_as_many_arrays_as_objects_have_no_schema_and_the_line_names_the_whole() -> None:
    made = proposal("value", [b"[1]", b'{"n": 1}'])
    assert (made.format, made.schema) == ("string", None)
    assert "the whole: left out, because it has 1 of type array and 1 of type object" in made.seen
    assert "the whole: left out, because its items have no type" in proposal("value", [b"[]"]).seen


def test_several_topics_to_infer_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = Decoded(tmp_path)
    lake.append((b"a", b"b"))
    assert main.main(["decode", lake.path, "--infer", "orders", "--infer", "nums"]) == 64
    printed = capsys.readouterr()
    assert (printed.out, "--infer takes one topic" in printed.err) == ("", True)


def test_a_topic_without_published_records_is_refused(tmp_path: Path, capsys) -> None:
    lake = Decoded(tmp_path)
    lake.append((b"a", b"b"))
    assert main.main(["decode", lake.path, "--infer", "payments"]) == 64
    assert "No record of the topic payments is published" in capsys.readouterr().err
    assert not (Path(lake.path) / "tables" / "decoded").exists()


def test_schemas_of_a_topic_with_the_longest_name_have_names_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = "long." * 49 + "name"  # 249 characters, as many as Kafka allows
    lake = Decoded(tmp_path)
    partition = lake.source.partition(f"{topic}-0", "CCCCCCCCCCCCCCCCCCCCCQ")
    partition.roll()
    partition.write(handmade.simple_batch(0, [(b'{"k":1}', b'{"v":1}')], base_timestamp=1, leader_epoch=0))
    lake.marks[f"{topic}_0"] = 1
    lake.publish()
    assert main.main(["decode", lake.path, "--infer", topic]) == 0
    policy, *schemas = capsys.readouterr().out.split("\n# ")[-3:]
    policy = policy[policy.index("topics:") :]
    names = []
    for text in schemas:
        name, _, schema = text.partition(", a file beside the policies:\n")
        (tmp_path / name).write_text(schema)
        names.append(name)
    settings = yaml.safe_load(policy)["topics"][topic]
    assert names == [settings["decode.key.schema"], settings["decode.value.schema"]]
    assert names[0].endswith(".key.json")
    assert names[1].endswith(".value.json")
    lake.policies.write_text(policy)
    assert lake.decode().metrics == {"decoded": 1, "undecoded": 0, "waiting": 0}


def test_names_of_a_record_add_no_line_to_the_policy_and_those_without_a_column_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Decoded(tmp_path)
    names = {"x\nlake:\n  nightly: apply\n#": None, "y\u2028lake: {nightly: apply}": None, "z\x1b[2J": None}
    lake.append((b"k", json.dumps({"id": 1, "": 2, "n\0": 3, "\ud800": 4} | names).encode()))
    assert main.main(["decode", lake.path, "--infer", "orders"]) == 0
    policy, _, schema = capsys.readouterr().out.partition("\n# orders.value.json, a file beside the policies:\n")
    assert yaml.safe_load(policy).keys() == {"topics"}
    assert policy.replace("\n", "").isprintable()
    assert json.loads(schema)["properties"] == {"id": {"type": "integer"}}
    assert "# value: 3 names left out, because no column can have them\n" in policy
