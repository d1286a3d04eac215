"""What Kafka's own clients wrote with random settings is read as Kafka's own consumer reads it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from logcore.columns.engines import ENGINE_VARIABLE, Engine, available
from tests.kafka.command_line import dumped
from tests.kafka.conftest import LEVELS, SEEDS, Lines, Produced, by_partition

pytestmark = pytest.mark.kafka

KINDS = ("plain", "stamped", "recoded", "transactions", "big", "trimmed")


@pytest.fixture(scope="module", params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module", params=list(Engine))
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param not in available():
        pytest.skip(f"the engine {request.param} does not work on this machine")
    return request.param


@pytest.fixture(scope="module")
def ours(produced: Produced, level: str, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Lines:
    target = tmp_path_factory.mktemp("ours") / "records.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE_VARIABLE, engine)
        return by_partition(dumped(target, produced.log_dir, "--isolation.level", level))


def first_difference(ours: list[dict], theirs: list[dict]) -> str:
    """Where two lists part, without their values: those may be megabytes."""
    if [line["offset"] for line in ours] != [line["offset"] for line in theirs]:
        only = {line["offset"] for line in ours} ^ {line["offset"] for line in theirs}
        return f"offsets {sorted(only)[:10]} are with one only, or the order differs"
    for mine, other in zip(ours, theirs, strict=True):
        if mine != other:
            return f"offset {mine['offset']} differs in {[name for name in other if mine.get(name) != other[name]]}"
    return "none"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_record_is_the_consumers(produced: Produced, level: str, ours: Lines, kind: str, seed: str) -> None:
    topic = f"{kind}-{seed}"
    logs = [log for log in produced.bounds[level] if log[0] == topic]
    assert logs
    for log in logs:
        mine, theirs = ours.get(log, []), produced.consumed[level].get(log, [])
        if mine != theirs:
            pytest.fail(f"{log}: {first_difference(mine, theirs)}\n{produced.settings(topic)}")


def test_nothing_is_shown_beside_them(produced: Produced, level: str, ours: Lines) -> None:
    """Every topic of the broker's clients was compared; only Kafka's own are left."""
    assert {log for log in ours if not log[0].startswith("__")} <= produced.consumed[level].keys()


def test_a_running_brokers_directory_shows_the_same(produced: Produced, level: str, tmp_path: Path) -> None:
    """Its indexes are preallocated, its checkpoints empty. The log end is the high watermark, as the option says."""
    lines = dumped(
        tmp_path / "lines", produced.running, "--isolation.level", level, "--high-watermark", "log-end", "--all"
    )
    shown = by_partition(lines)
    for log, theirs in produced.consumed[level].items():
        beginning, _ = produced.bounds[level][log]
        mine = [line for line in shown[log] if line["offset"] >= beginning]  # log starts are in no checkpoint yet
        if mine != theirs:
            pytest.fail(f"{log}: {first_difference(mine, theirs)}")


def test_what_was_produced_is_worth_comparing(produced: Produced) -> None:
    """Were the random choices to lose their variety, equality would prove little."""
    everything, committed = (produced.consumed[level] for level in LEVELS)
    records = [line for lines in everything.values() for line in lines]
    assert len(records) > 2000 * len(SEEDS)
    assert any(line["key"] is None for line in records)
    assert any(line["key"] == "" for line in records)
    assert any(line["value"] is None for line in records)
    assert any(line["value"] == "" for line in records)
    names = [[name for name, _ in line["headers"]] for line in records]
    assert any(len(set(of_one)) < len(of_one) for of_one in names)
    assert {"", "größe", "emoji \U0001f600"} <= {name for of_one in names for name in of_one}
    assert any(content is None for line in records for _, content in line["headers"])
    assert max(len(line["value"] or "") for line in records) > 1_400_000
    assert {line["timestamp_type"] for line in records} == {"CreateTime", "LogAppendTime"}
    for seed in SEEDS:
        logs = [log for log in everything if log[0] == f"transactions-{seed}"]
        ends = [
            (produced.bounds["read_committed"][log][1], produced.bounds["read_uncommitted"][log][1]) for log in logs
        ]
        assert any(stable < end for stable, end in ends), "a transaction is open"
        below = {
            log: sum(line["offset"] < end for line in everything[log]) for log, (end, _) in zip(logs, ends, strict=True)
        }
        assert any(below[log] > len(committed[log]) for log in logs), "transactions were aborted"
        assert produced.bounds["read_uncommitted"][f"trimmed-{seed}", 0][0] > 0


def test_reading_leaves_the_directory_as_it_was(produced: Produced, tmp_path: Path) -> None:
    def state() -> dict[str, tuple[int, str]]:
        return {
            str(path.relative_to(produced.log_dir)): (
                path.stat().st_mtime_ns,
                hashlib.sha256(path.read_bytes()).hexdigest(),
            )
            for path in produced.log_dir.rglob("*")
            if path.is_file()
        }

    before = state()
    dumped(tmp_path / "records", produced.log_dir)
    dumped(tmp_path / "indexes", produced.log_dir, "--indexes")
    assert state() == before
