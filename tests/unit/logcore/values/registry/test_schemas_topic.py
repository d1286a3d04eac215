"""Records of `_schemas`, written by hand after the registry's own classes, with the expected answers beside them."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from logcore.values.registry.schemas import WriterSchema
from logcore.values.registry.schemas_topic import RegistryFinding, fold_schemas_topic
from logcore.values.undecodable import Reason, Undecodable

GUID = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")


def key(subject: str, version: int, magic: int = 1) -> bytes:
    return json.dumps({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": magic}).encode()


def value(subject: str, version: int, id: int, schema: str = '"long"', **more: object) -> bytes:
    fields = {"subject": subject, "version": version, "id": id, "schema": schema, "deleted": False, **more}
    return json.dumps(fields).encode()


def refusal(records, schema, subject: str) -> Reason:
    with pytest.raises(Undecodable) as caught:
        fold_schemas_topic(records).schemas.writer_schema(schema, subject)
    return caught.value.reason


def test_a_schema_is_found_by_id_and_by_guid_and_is_avro_unless_it_says_otherwise():
    records = [
        (b'{"keytype":"NOOP","magic":0}', None),
        (key("a-value", 1), value("a-value", 1, 5, md5="AAECAwQFBgcICQoLDA0ODw==")),
        (key("a-value", 2, 0), value("a-value", 2, 6, "{}", schemaType="JSON")),
    ]
    state = fold_schemas_topic(records)
    assert state.schemas.writer_schema(5, "a-value") == WriterSchema("avro", '"long"', {})
    assert state.schemas.writer_schema(GUID, "a-value") == WriterSchema("avro", '"long"', {})
    assert state.schemas.writer_schema(6, "a-value") == WriterSchema("json", "{}", {})
    assert (state.findings, state.settings) == ((), {})


def test_an_id_of_another_subject_or_of_none_is_refused():
    records = [(key("a-value", 1), value("a-value", 1, 5)), (key("b-value", 1), value("b-value", 1, 5))]
    assert refusal(records, 6, "a-value") == Reason.UNKNOWN_SCHEMA
    assert refusal(records, GUID, "a-value") == Reason.UNKNOWN_SCHEMA
    assert refusal(records, 5, "c-value") == Reason.OTHER_SUBJECT
    schemas = fold_schemas_topic(records).schemas
    assert schemas.writer_schema(5, "b-value").text == '"long"'


def test_ids_are_unique_within_a_context_only():
    records = [
        (key("a-value", 1), value("a-value", 1, 5, '"int"')),
        (key(":.ctx:a-value", 1), value(":.ctx:a-value", 1, 5, '"string"')),
    ]
    schemas = fold_schemas_topic(records).schemas
    assert schemas.writer_schema(5, "a-value").text == '"int"'
    assert schemas.writer_schema(5, ":.ctx:a-value").text == '"string"'
    assert refusal(records, 5, ":.other:a-value") == Reason.UNKNOWN_SCHEMA


def test_one_guid_in_two_contexts_belongs_to_the_subjects_of_each():
    digest = "AAECAwQFBgcICQoLDA0ODw=="
    records = [
        (key(":.c:a", 1), value(":.c:a", 1, 5, md5=digest)),
        (key("b", 1), value("b", 1, 9, md5=digest)),
    ]
    schemas = fold_schemas_topic(records).schemas
    assert schemas.writer_schema(GUID, ":.c:a").text == '"long"'
    assert schemas.writer_schema(GUID, "b").text == '"long"'
    assert refusal(records, GUID, "a") == Reason.OTHER_SUBJECT
    assert refusal(records, GUID, ":.d:a") == Reason.UNKNOWN_SCHEMA


@pytest.mark.parametrize(
    "deletion",
    [
        (key("a-value", 1), None),
        (key("a-value", 1), value("a-value", 1, 5, deleted=True)),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a-value","magic":0}', b'{"subject":"a-value","version":1}'),
        (b'{"keytype":"CLEAR_SUBJECT","subject":"a-value","magic":0}', b'{"subject":"a-value"}'),
    ],
)
def test_a_deleted_schema_still_decodes_values_that_were_written_before(deletion):
    records = [(key("a-value", 1), value("a-value", 1, 5)), deletion]
    state = fold_schemas_topic(records)
    assert state.schemas.writer_schema(5, "a-value").text == '"long"'
    assert all(version.deleted for version in state.schemas.versions.values())
    assert state.findings == ()


def test_deleting_a_subject_leaves_later_versions_and_other_subjects():
    records = [
        (key("a", 1), value("a", 1, 1)),
        (key("a", 2), value("a", 2, 2)),
        (key("b", 1), value("b", 1, 3)),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', b'{"subject":"a","version":1}'),
    ]
    versions = fold_schemas_topic(records).schemas.versions
    assert {name: version.deleted for name, version in versions.items()} == {
        ("a", 1): True,
        ("a", 2): False,
        ("b", 1): False,
    }


def test_references_are_followed_within_the_context_also_through_others():
    first = [{"name": "Outer", "subject": "outer", "version": 1}]
    second = [{"name": "Inner", "subject": "inner", "version": -1}]
    records = [
        (key(":.c:inner", 1), value(":.c:inner", 1, 1, "one")),
        (key(":.c:inner", 2), value(":.c:inner", 2, 2, "two")),
        (key(":.c:inner", 3), value(":.c:inner", 3, 3, "three", deleted=True)),
        (key(":.c:outer", 1), value(":.c:outer", 1, 4, "outer", references=second)),
        (key(":.c:a", 1), value(":.c:a", 1, 5, "whole", references=first)),
    ]
    schema = fold_schemas_topic(records).schemas.writer_schema(5, ":.c:a")
    assert schema == WriterSchema("avro", "whole", {"Outer": "outer", "Inner": "two"})
    assert refusal(records[3:], 5, ":.c:a") == Reason.BAD_SCHEMA


def test_references_in_a_circle_end():
    circle = [{"name": "a", "subject": "a", "version": 1}]
    records = [(key("a", 1), value("a", 1, 1, "x", references=circle))]
    assert fold_schemas_topic(records).schemas.writer_schema(1, "a").references == {"a": "x"}


@pytest.mark.parametrize(
    ("rules", "encrypted"),
    [
        ({"domainRules": [{"name": "r", "type": "ENCRYPT"}]}, True),
        ({"encodingRules": [{"name": "r", "type": "ENCRYPT_PAYLOAD"}]}, True),
        ({"domainRules": [{"name": "r", "type": "ENCRYPT", "disabled": True}]}, False),
        ({"domainRules": [{"name": "r", "type": "CEL"}]}, False),
        (None, False),
    ],
)
def test_a_rule_that_encrypts_makes_values_undecodable(rules, encrypted):
    records = [(key("a", 1), value("a", 1, 1, ruleSet=rules))]
    if encrypted:
        assert refusal(records, 1, "a") == Reason.ENCRYPTED
    else:
        assert fold_schemas_topic(records).schemas.writer_schema(1, "a").format == "avro"


def test_an_id_that_stood_for_two_schemas_decodes_nothing_and_is_a_finding():
    records = [(key("a", 1), value("a", 1, 1, '"int"')), (key("a", 1), value("a", 1, 1, '"long"'))]
    assert refusal(records, 1, "a") == Reason.BAD_SCHEMA
    assert fold_schemas_topic(records).findings == (RegistryFinding("TWO_SCHEMAS", "id 1 of context .", 1),)


def test_other_keys_are_kept_and_unknown_ones_are_counted():
    config = b'{"keytype":"CONFIG","subject":"a","magic":0}'
    mode = b'{"keytype":"MODE","subject":null,"magic":0}'
    future = b'{"keytype":"FUTURE","magic":0}'
    records = [
        (config, b'{"compatibilityLevel":"FULL"}'),
        (mode, b'{"mode":"READONLY"}'),
        (b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}', b"{}"),
        (b'{"keytype":"ASSOC","magic":0}', b"{}"),
        (future, b"not even JSON"),
        (future, b"newest"),
        (mode, None),
    ]
    state = fold_schemas_topic(records)
    assert state.findings == (RegistryFinding("UNKNOWN_KEYTYPE", "FUTURE", 2),)
    assert (len(state.settings), state.settings[config], state.settings[future]) == (
        4,
        b'{"compatibilityLevel":"FULL"}',
        b"newest",
    )
    assert mode not in state.settings


@pytest.mark.parametrize(
    ("harmed", "detail"),
    [
        ((None, b"{}"), "without a key"),
        ((b"null", b"{}"), "without a key"),
        ((b"\xff", b"{}"), "without a key"),
        ((b"[" * 100_000, None), "without a key"),
        ((key("a", 2, 7), value("a", 2, 9)), "SCHEMA"),
        ((key("a", 2), b"{"), "SCHEMA"),
        ((key("a", 2), b"[]"), "SCHEMA"),
        ((key("a", 2), b'{"id":1e99,"schema":"x"}'), "SCHEMA"),
        ((key("a", 2), value("a", 2, 9, references=["x"])), "SCHEMA"),
        ((key("a", 2), value("a", 2, 9, schemaType=5)), "SCHEMA"),
        ((b'{"keytype":"DELETE_SUBJECT","subject":"a"}', b"{}"), "DELETE_SUBJECT"),
    ],
)
def test_a_harmed_record_is_a_finding_and_the_others_count(harmed, detail):
    state = fold_schemas_topic([harmed, (key("a", 1), value("a", 1, 5))])
    assert state.findings == (RegistryFinding("BAD_RECORD", detail, 1),)
    assert state.schemas.writer_schema(5, "a").text == '"long"'
    assert len(state.schemas.versions) == 1
