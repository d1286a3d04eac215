"""`cluster` and `publish` on internal topics with secrets, and with records that cannot be read."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import ClusterConfig, JobReport, PublishConfig
from tests import handmade
from tests.spark.cycle import AS_OF_MS, Lake

Captured = pytest.CaptureFixture[str]
Row = tuple[bytes | None, bytes | None]

SALT, STORED_KEY, SERVER_KEY = b"planted-salt-1234", b"planted-stored-key", b"planted-server-key"
TOKEN, PASSWORD = b"planted-token-id-56", b"planted-password-78"
SECRETS = (SALT, STORED_KEY, SERVER_KEY, TOKEN, PASSWORD)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def compact(value: bytes) -> bytes:
    return bytes([len(value) + 1]) + value


def topic(name: str) -> bytes:
    """TopicRecord 0."""
    return b"\1\2\0" + compact(name.encode()) + name.encode().ljust(16, b"-") + b"\0"


CREDENTIAL = (
    b"\1\x0b\0" + compact(b"alice") + b"\1" + compact(SALT) + compact(STORED_KEY) + compact(SERVER_KEY)
    + struct.pack(">i", 4096) + b"\0"
)  # fmt: skip
"""UserScramCredentialRecord 0."""
ISSUED = (
    b"\1\x0a\0" + compact(b"User:alice") + compact(b"User:bob") + b"\2" + compact(b"User:carol")
    + struct.pack(">qqq", 1, 2, 3) + compact(TOKEN) + b"\0"
)  # fmt: skip
"""DelegationTokenRecord 0."""
EXPIRED = b"\1\x1a\0" + compact(TOKEN) + b"\0"
"""RemoveDelegationTokenRecord 0."""
OF_BROKER = b"\1\4\0\4" + compact(b"1") + compact(b"ssl.keystore.password") + compact(PASSWORD) + b"\0"
OF_TOPIC = b"\1\4\0\2" + compact(b"orders") + compact(b"connector.api.key") + compact(PASSWORD) + b"\0"
"""ConfigRecord 0."""
WITH_SECRETS = (CREDENTIAL, ISSUED, EXPIRED, OF_BROKER, OF_TOPIC)


def damaged(value: bytes) -> tuple[bytes, ...]:
    """Cut, of an unknown version, of an unknown type, with an unknown frame, and with more bytes."""
    return value[:-1], value[:2] + b"\x63" + value[3:], value[:1] + b"\x63" + value[2:], b"\2" + value[1:], value + b"x"


def control(base_offset: int, kind: int, value: bytes) -> bytes:
    return handmade.control_batch(base_offset, struct.pack(">hh", 0, kind), value, leader_epoch=1)


def snapshot_of(*values: bytes) -> bytes:
    """A snapshot with its header and footer."""
    records = handmade.simple_batch(1, [(None, value) for value in values], leader_epoch=1)
    header = control(0, 3, struct.pack(">hq", 0, 5) + b"\0")
    return header + records + control(1 + len(values), 4, b"\0\0\0")


def commit(group: str, version: int = 3) -> Row:
    key = struct.pack(">h", 1) + text(group) + text("orders") + struct.pack(">i", 0)
    return key, struct.pack(">hqi", version, 3, -1) + text("") + struct.pack(">q", 1_700_000_000_000)


def write(log: Path, *rows: Row) -> None:
    """Make a log of these records, a batch each."""
    log.mkdir(parents=True)
    batches = [handmade.simple_batch(at, [row], leader_epoch=1) for at, row in enumerate(rows)]
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))


def cluster(lake: Lake, *sources: Path) -> JobReport:
    return launch.run(ClusterConfig(str(lake.path), "run", AS_OF_MS, tuple(map(str, sources))))


def shapes(secret: bytes) -> Iterator[str]:
    """The forms in which the bytes could be shown: as text, in base64 at any position, as hexadecimal digits."""
    yield secret.decode()
    yield secret.hex()
    for start in range(3):
        whole = secret[start : start + (len(secret) - start) // 3 * 3]
        yield base64.b64encode(whole).decode()


FORMS = [form for secret in SECRETS for form in shapes(secret)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A metadata log with secrets, whole and damaged, and a snapshot that has them too."""
    log = tmp_path / "source" / "__cluster_metadata-0"
    broken = [value for whole in WITH_SECRETS for value in damaged(whole)]
    write(log, *((None, value) for value in (topic("orders"), *WITH_SECRETS, *broken, topic("later"))))
    (log / f"{6:020d}-{1:010d}.checkpoint").write_bytes(snapshot_of(topic("orders"), *WITH_SECRETS))
    return log.parent


def test_no_secret_of_the_metadata_is_in_an_output_or_in_a_file_of_the_lake(
    source: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCRAM, delegation tokens and passwords; also of records that cannot be read, and by a lake that ran before."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    assert all(form.encode() in (source / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes() for form in FORMS[::5])
    lake = tmp_path / "lake"
    write(tmp_path / "other" / "orders-0", (b"k", b"v"))
    Lake(lake).turn(tmp_path / "other")
    commands = [["cluster", str(lake), "--source", str(source), *more] for more in (["--dry-run"], [], [])]
    for command in ("metadata", "topics", "verify", "ledger", "ls"):
        commands += [[command, "--format", form, str(source)] for form in ("text", "jsonl")]
    for form in ("text", "jsonl"):
        commands += [
            ["dump", "--decode", "--all", *more, "--format", form, str(source)] for more in ([], ["--control"])
        ]
    commands += [["offsets", "--at", "latest", str(source)], ["verify", str(lake)]]
    shown = 0
    for command in commands:
        assert main(command) < 64, command
        captured = capsys.readouterr()
        shown += len(captured.out + captured.err)
        assert not [form for form in FORMS if form in captured.out + captured.err], command
    assert shown > 20_000
    report = cluster(Lake(lake), source)
    assert not [form for form in FORMS if form in json.dumps(report.to_json())]
    files = [path for folder in (lake, tmp_path / "home") for path in folder.rglob("*") if path.is_file()]
    tables = {path.parent.name for path in files if path.suffix == ".parquet"}
    assert {"cluster_topics", "cluster_topic_configs", "findings"} <= tables
    content = b"".join(path.read_bytes() for path in files)
    content += "".join(str(Lake(lake).rows(name)) for name in tables).encode()
    assert not [form for form in FORMS if form.encode() in content]
    (setting,) = Lake(lake).rows("cluster_topic_configs")
    assert (setting["name"], setting["value"]) == ("connector.api.key", "(redacted)")


def test_metadata_records_that_cannot_be_read_are_findings_and_the_rest_has_rows(source: Path, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    cluster(lake, source)
    found = [row for row in lake.rows("findings") if row["rule"] == "message-not-read"]
    assert sorted(row["start_offset"] for row in found) == list(range(6, 6 + 5 * len(WITH_SECRETS)))
    assert {row["topic"] for row in lake.rows("cluster_topics")} == {"orders", "later"}


def test_commits_that_cannot_be_read_are_findings_and_the_rest_has_rows(tmp_path: Path) -> None:
    log = tmp_path / "__consumer_offsets-0"
    key, value = commit("cut")
    assert value is not None
    cut = key, value[:-3]
    write(log, commit("a"), commit("unknown", 99), cut, (struct.pack(">h", 9) + text("g"), b"v"), commit("b"))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 5\n")
    lake = Lake(tmp_path / "lake")
    cluster(lake, tmp_path)
    found = {row["start_offset"] for row in lake.rows("findings") if row["rule"] == "message-not-read"}
    assert found == {1, 2, 3}
    assert {row["group"] for row in lake.rows("cluster_offset_commits")} == {"a", "b"}
    assert {row["group"] for row in lake.rows("cluster_groups")} == {"a", "b"}


def test_names_that_are_not_utf_8_have_rows_with_replaced_bytes(tmp_path: Path) -> None:
    """A member by GroupMetadataValue 0 with ConsumerProtocolAssignment 0; a transaction by TransactionLogValue 0."""

    def raw(value: bytes) -> bytes:
        return struct.pack(">h", len(value)) + value

    def sized(value: bytes) -> bytes:
        return struct.pack(">i", len(value)) + value

    of_topic = raw(b"or\xffders") + struct.pack(">ii", 1, 0)
    assignment = struct.pack(">hi", 0, 1) + of_topic + struct.pack(">i", -1)
    member = raw(b"m\xff") + raw(b"c") + raw(b"/h") + struct.pack(">i", 1000) + sized(b"") + sized(assignment)
    group = struct.pack(">h", 0) + raw(b"consumer") + struct.pack(">i", 1) + raw(b"range") + raw(b"m\xff")
    _, value = commit("g")
    assert value is not None
    beyond = struct.pack(">h", 1) + raw(b"g\xff") + raw(b"orders") + struct.pack(">i", 0)
    rows = (struct.pack(">h", 2) + raw(b"g\xff"), group + struct.pack(">i", 1) + member), (beyond, value)
    write(tmp_path / "__consumer_offsets-0", *rows)
    transaction = struct.pack(">hqhibi", 0, 5, 0, 1000, 1, 1) + of_topic + struct.pack(">qq", 1, 1)
    write(tmp_path / "__transaction_state-0", (struct.pack(">h", 0) + raw(b"id\xff"), transaction))
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").touch()
    lines = "0\n3\n__consumer_offsets 0 2\n__transaction_state 0 1\norders 0 0\n"
    (tmp_path / "replication-offset-checkpoint").write_text(lines)
    lake = Lake(tmp_path / "lake")
    for _ in range(2):
        report = cluster(lake, tmp_path)
    assert not any(report.plan.rows.values())
    (found,) = lake.rows("cluster_group_members")
    assert (found["group"], found["member_id"], found["assignment"]) == ("g\ufffd", "m\ufffd", ["or\ufffdders-0"])
    (state,) = lake.rows("cluster_transactional_ids")
    assert (state["transactional_id"], state["partitions"]) == ("id\ufffd", ["or\ufffdders-0"])


def test_a_log_that_begins_at_two_snapshots_uses_the_one_of_the_highest_epoch(tmp_path: Path) -> None:
    log = tmp_path / "__cluster_metadata-0"
    log.mkdir()
    (log / f"{2:020d}.log").write_bytes(handmade.simple_batch(2, [(None, topic("later"))], leader_epoch=3))
    for epoch, names in ((1, "ab"), (3, "xy")):
        (log / f"{2:020d}-{epoch:010d}.checkpoint").write_bytes(snapshot_of(*map(topic, names)))
    lake = Lake(tmp_path / "lake")
    cluster(lake, log)
    assert {row["topic"] for row in lake.rows("cluster_topics")} == {"x", "y", "later"}
    (found,) = [row for row in lake.rows("findings") if row["rule"] == "snapshots-at-one-offset"]
    assert (found["start_offset"], found["end_offset"]) == (2, 2)


@pytest.mark.parametrize(
    ("include_internal", "topics", "published"),
    [
        (False, (), {"orders"}),
        (True, (), {"orders", "__consumer_offsets"}),
        (True, ("*",), {"orders", "__consumer_offsets"}),
        (False, ("__cluster_metadata",), {"__cluster_metadata"}),
        (True, ("orders", "__cluster_metadata"), {"orders", "__consumer_offsets", "__cluster_metadata"}),
    ],
)
def test_the_metadata_log_is_published_only_when_it_is_named(
    tmp_path: Path, include_internal: bool, topics: tuple[str, ...], published: set[str]
) -> None:
    source = tmp_path / "source"
    write(source / "orders-0", (b"k", b"v"))
    write(source / "__consumer_offsets-0", commit("a"))
    write(source / "__cluster_metadata-0", (None, topic("orders")))
    (source / "__cluster_metadata-0" / f"{1:020d}-{1:010d}.checkpoint").write_bytes(snapshot_of(topic("orders")))
    (source / "replication-offset-checkpoint").write_text("0\n2\n__consumer_offsets 0 1\norders 0 1\n")
    lake = Lake(tmp_path / "lake")
    lake.turn(source, publish=False)
    config = PublishConfig(str(lake.path), "run", AS_OF_MS, topics=topics, include_internal=include_internal)
    launch.run(config)
    assert {row["topic"] for row in lake.rows("records")} == published
