"""Field ids never change: readers by id, and files that are written, have them.

The lists here are copies, made once. A column is added at the end of its table; nothing else here may change.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from deltalake import Schema

from spark_jobs.lake.decoded.topic_tables import decoded_spec, latest_spec, undecoded_spec
from spark_jobs.lake.field_ids import INSIDE, as_in_files, as_in_table, with_field_ids
from spark_jobs.lake.table_specs import TABLES
from tests.field_ids import ids_of_schema

COLUMNS: Mapping[str, str] = {
    "records": (
        "topic partition offset timestamp timestampType key value headers timestamp_ms leader_epoch log_id "
        "segment_id position header_keys_raw published_at"
    ),
    "records_uncommitted": (
        "topic partition offset timestamp timestampType key value headers timestamp_ms leader_epoch log_id "
        "segment_id position header_keys_raw transaction_state"
    ),
    "offset_ledger": (
        "log topic log_id partition start_offset end_offset state records gaps gap_state evidence published "
        "archived withdrawn markers"
    ),
    "findings": (
        "finding_id run_id rule severity log topic partition segment_id file position nbytes start_offset "
        "end_offset message as_of_ms"
    ),
    "quarantine": "segment_id log topic log_id partition position size expected_offset reason message bytes",
    "batches": (
        "segment_id log topic log_id partition position size base_offset last_offset leader_epoch magic crc "
        "attributes codec timestamp_type base_timestamp max_timestamp delete_horizon_ms producer_id "
        "producer_epoch base_sequence record_count is_transactional is_control control_type verdict"
    ),
    "transactions": (
        "log topic log_id partition producer_id producer_epoch first_offset last_offset marker_offset state"
    ),
    "segments": (
        "segment_id log topic log_id partition base_offset next_offset path start size sealed digest modified_ms "
        "max_timestamp generation origin_file origin_position origin_base_offset last_batch_base_offset "
        "last_batch_epoch last_batch_crc last_batch_size last_batch_end retired_ms replaced_by retired_because "
        "deleted_ms etag chunk_map archived_ms archived_by"
    ),
    "logs": (
        "log topic log_id partition incarnation topic_id cluster source next_offset log_start_offset "
        "source_log_start_offset high_watermark leader_epochs cleaner_checkpoint gaps as_of_ms stopped "
        "stopped_because stopped_file"
    ),
    "validations": (
        "segment_id log topic log_id partition base_offset verdict rules_version batches records control_records "
        "file_bytes valid_bytes quarantined_bytes tail_bytes padding_bytes findings split_points digest as_of_ms"
    ),
    "log_actions": (
        "run_id log topic log_id partition segment_id action rule reason bytes_before bytes_after records_before "
        "records_after as_of_ms"
    ),
    "withdrawals": (
        "log topic log_id partition start_offset end_offset records table_version run_id who withdrawn_ms reason cause"
    ),
    "runs": (
        "run_id job started_by as_of_ms outcome failed_step error engine changed_logs segments bytes records "
        "deleted_bytes failed_checks findings_error findings_warning findings_info lag_offsets open_transactions "
        "oldest_open_transaction_age_ms logs started_ms ended_ms ingest_ms validate_ms publish_ms replace_ms "
        "check_foreign_rows_ms decode_ms latest_ms cluster_ms expectations_ms retention_ms compaction_ms "
        "tidy_archive_ms rebuild_indexes_ms optimize_ms"
    ),
    "cluster_offset_commits": (
        "internal_log cluster group topic partition committed_offset leader_epoch metadata commit_time "
        "record_offset is_deleted is_transactional standing"
    ),
    "cluster_group_offsets": (
        "internal_log cluster group topic partition committed_offset leader_epoch metadata commit_time "
        "record_offset high_watermark last_stable_offset lag lag_read_committed standing"
    ),
    "cluster_groups": "internal_log cluster group type state epoch protocol_type assignor members standing",
    "cluster_group_members": ("internal_log cluster group member_id instance_id client_id host assignment standing"),
    "cluster_transactional_ids": (
        "internal_log cluster transactional_id producer_id producer_epoch timeout_ms state partitions "
        "last_update_time start_time record_offset standing other_producer_ids"
    ),
    "cluster_topics": (
        "internal_log cluster topic topic_id valid_from_offset valid_from_time valid_to_offset valid_to_time standing"
    ),
    "cluster_topic_configs": (
        "internal_log cluster topic name value valid_from_offset valid_from_time valid_to_offset valid_to_time standing"
    ),
    "cluster_partitions": (
        "internal_log cluster topic topic_id partition leader leader_epoch partition_epoch replicas isr "
        "removing_replicas adding_replicas directories leader_recovery_state eligible_leader_replicas "
        "last_known_elr valid_from_offset valid_from_time valid_to_offset valid_to_time standing"
    ),
    "cluster_brokers": (
        "internal_log cluster broker epoch incarnation_id end_points rack is_fenced is_in_controlled_shutdown "
        "log_dirs valid_from_offset valid_from_time valid_to_offset valid_to_time standing"
    ),
    "cluster_features": (
        "internal_log cluster name level valid_from_offset valid_from_time valid_to_offset valid_to_time standing"
    ),
    "cluster_remote_segments": (
        "internal_log cluster topic topic_id partition segment_id start_offset end_offset size state "
        "max_timestamp event_time broker standing"
    ),
}
"""Columns in the order of their ids: 1, 2, 3 and so on."""

INSIDE_COLUMNS = {
    "headers.element": 1_365_206_301,
    "headers.element.key": 1_806_883_742,
    "headers.element.value": 1_174_363_598,
    "header_keys_raw.element": 1_499_144_564,
    "logs.element": 1_312_608_291,
    "logs.element.log": 422_244_142,
    "logs.element.log_start_offset": 23_411_980,
    "logs.element.last_stable_offset": 1_988_426_822,
    "logs.element.high_watermark": 38_990_390,
    "logs.element.log_end_offset": 962_281_938,
    "assignment.element": 1_961_658_088,
    "partitions.element": 348_393_228,
    "other_producer_ids.element": 1_324_870_285,
    "replicas.element": 439_575_801,
    "isr.element": 730_999_397,
    "removing_replicas.element": 329_539_395,
    "adding_replicas.element": 1_264_076_223,
    "directories.element": 937_545_754,
    "eligible_leader_replicas.element": 195_603_654,
    "last_known_elr.element": 469_537_360,
    "end_points.element": 1_978_193_857,
    "log_dirs.element": 1_111_538_809,
}
"""What is in lists and structs of these tables; the same path has the same id in each of them."""


def test_each_table_has_the_ids_that_it_always_had() -> None:
    assert TABLES.keys() == COLUMNS.keys()
    for name, spec in TABLES.items():
        columns = {column: at for at, column in enumerate(COLUMNS[name].split(), 1)}
        found = ids_of_schema(spec.schema)
        assert {at: number for at, number in found.items() if "." not in at} == columns, name
        assert {at: number for at, number in found.items() if "." in at}.items() <= INSIDE_COLUMNS.items(), name


def test_tables_of_topics_have_the_ids_that_they_always_had() -> None:
    item = pa.struct([("sku", pa.string()), ("amounts", pa.map_(pa.string(), pa.int64()))])
    key, value = pa.field("key", pa.string()), pa.field("value", pa.struct([("items", pa.list_(item))]))
    coordinates = {"log_id": 1, "partition": 2, "offset": 3, "timestamp": 4, "headers": 5, "published_at": 6}
    headers = {at: number for at, number in INSIDE_COLUMNS.items() if at.startswith("headers.")}
    both = coordinates | headers | {"key": 7, "value": 8}
    assert ids_of_schema(decoded_spec("orders", key, value).schema) == both | {
        "value.items": 573_168_573,
        "value.items.element": 1_979_420_757,
        "value.items.element.sku": 1_561_731_568,
        "value.items.element.amounts": 1_617_084_578,
        "value.items.element.amounts.key": 1_095_081_021,
        "value.items.element.amounts.value": 1_042_700_634,
        "is_tombstone": 9,
    }
    failed = {"part": 9, "schema_id": 10, "reason": 11, "place": 12, "detail": 13}
    assert ids_of_schema(undecoded_spec("orders").schema) == both | failed
    assert ids_of_schema(latest_spec("orders").schema) == both | {"is_deleted": 9}


def test_a_field_has_the_same_id_beside_any_others() -> None:
    wide = pa.struct([(f"f{number}", pa.int32()) for number in range(1000)])
    alone = ids_of_schema(with_field_ids(pa.schema([("value", pa.struct([("f7", pa.string())]))])))
    among = ids_of_schema(with_field_ids(pa.schema([("value", wide)])))
    assert alone.items() <= among.items()
    assert len({*among.values()}) == len(among) == 1001


def test_no_two_fields_have_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """With five ids for five fields each of them is used once."""
    monkeypatch.setattr("spark_jobs.lake.field_ids.INSIDE", 5)
    fields = pa.struct([(f"f{number}", pa.int32()) for number in range(5)])
    found = ids_of_schema(with_field_ids(pa.schema([("value", fields)])))
    assert {*found.values()} == {1, *range(1_000_000, 1_000_005)}


def test_ids_are_below_those_that_iceberg_keeps_for_itself() -> None:
    assert 1_000_000 + INSIDE < 2**31 - 200


def test_a_table_keeps_the_ids_and_what_else_a_column_says_and_files_get_them_from_there() -> None:
    said = pa.field("value", pa.struct([pa.field("id", pa.int64(), metadata={"comment": "number"})]))
    tags = pa.field("tags", pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.string()))])), metadata={"comment": "x"})
    schema = with_field_ids(pa.schema([said, tags]))
    table = Schema.from_arrow(as_in_table(schema))
    assert "parquet.field.id" not in table.to_json()
    assert "columnMapping" not in table.to_json()
    back = pa.schema(table.to_arrow())  # type: ignore[arg-type]
    mine = back.append(pa.field("mine", pa.list_(pa.string())))
    of_files = ids_of_schema(as_in_files(mine))
    assert of_files == ids_of_schema(schema) | {"mine": -1, "mine.element": -1}
    assert back.field("tags").metadata[b"comment"] == b"x"
    assert back.field("value").type.field("id").metadata[b"comment"] == b"number"
