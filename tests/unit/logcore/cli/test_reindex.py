"""`reindex` makes side files again and never touches a segment; beside a damaged one everything stays."""

import json
import shlex
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.unit.logcore.cli import conftest as made
from tests.unit.logcore.cli.test_recover import AS_OF, name, recovered

Captured = pytest.CaptureFixture[str]


def reindexed(root: Path, out: Path, *arguments: str, code: int = 0) -> dict[str, bytes]:
    assert main(["reindex", str(root / "orders-0"), "--out", str(out), "--as-of", AS_OF, *arguments]) == code
    return {path.name: path.read_bytes() for path in out.iterdir()}


def verified(root: Path, whole: Path) -> int:
    """The exit code of `verify`, beside side files that are whole."""
    for path in whole.iterdir():
        if not path.name.endswith(".log"):
            (root / "orders-0" / path.name).write_bytes(path.read_bytes())
    return main(["verify", str(root)])


@pytest.mark.parametrize("interval", ["0", "4096"])
def test_a_whole_log_gets_what_a_recovery_of_all_of_it_writes(root: Path, tmp_path: Path, interval: str) -> None:
    config = ("--config", f"index.interval.bytes={interval}")
    assert reindexed(root, tmp_path / "a", *config) == recovered(root, tmp_path / "b", *config)


def test_wrong_side_files_are_replaced_and_strays_go(root: Path, tmp_path: Path, capsys: Captured) -> None:
    whole = reindexed(root, tmp_path / "whole")
    orders = root / "orders-0"
    (orders / name(0, ".txnindex")).write_bytes(b"junk" * 20)
    (orders / name(5, ".timeindex")).write_bytes(b"junk")
    (orders / name(3, ".snapshot")).write_bytes(b"junk")
    assert reindexed(root, tmp_path / "again") == whole
    capsys.readouterr()
    assert main(["reindex", str(orders), "--plan", "--as-of", AS_OF]) == 0
    assert name(3, ".snapshot") in json.loads(capsys.readouterr().out)["dropped"]


def test_beside_a_damaged_segment_everything_stays_and_later_ones_get_their_indexes(
    root: Path, tmp_path: Path, capsys: Captured
) -> None:
    orders = root / "orders-0"
    damaged = handmade.flip(made.SEALED, 80)
    (orders / name(0)).write_bytes(damaged)
    (orders / name(5, ".snapshot")).write_bytes(b"whatever")
    before = {path.name: path.read_bytes() for path in orders.iterdir()}
    files = reindexed(root, tmp_path / "new", code=2)
    assert files == before | {
        name(5, ".index"): b"",
        name(5, ".timeindex"): struct.pack(">qi", 1_700_000_000_500, 2),
    }
    assert "error damaged-segment" in capsys.readouterr().out


@pytest.mark.parametrize("rest", [made.UNDER_WAY, bytes(7), bytes(500)], ids=["torn", "few zeros", "reserved"])
def test_a_write_in_progress_or_reserved_space_stays_and_is_not_indexed(
    root: Path, tmp_path: Path, capsys: Captured, rest: bytes
) -> None:
    whole = reindexed(root, tmp_path / "whole")
    (root / "orders-0" / name(5)).write_bytes(made.ACTIVE + rest)
    code = verified(root, tmp_path / "whole")
    capsys.readouterr()
    assert reindexed(root, tmp_path / "new", code=code) == whole | {name(5): made.ACTIVE + rest}
    assert capsys.readouterr().out.startswith(f"info not-indexed: orders-0/{name(5)}, position {len(made.ACTIVE)}: ")


def test_an_old_batch_at_the_end_is_damage_as_for_verify(root: Path, tmp_path: Path) -> None:
    (root / "orders-0" / name(5)).write_bytes(made.ACTIVE + made.LAST[:30])
    assert main(["verify", str(root)]) == 2
    reindexed(root, tmp_path / "new", code=2)


@pytest.mark.parametrize(
    "rest", [bytes(500), b"junk" * 30, made.FIRST, made.SEALED[-40:]], ids=["zeros", "junk", "old batch", "torn"]
)
def test_bytes_after_the_last_offset_of_a_closed_segment_stay_and_are_not_indexed(
    root: Path, tmp_path: Path, capsys: Captured, rest: bytes
) -> None:
    whole = reindexed(root, tmp_path / "whole")
    (root / "orders-0" / name(0)).write_bytes(made.SEALED + rest)
    code = verified(root, tmp_path / "whole")
    files = reindexed(root, tmp_path / "new", code=code)
    if code == 1:
        assert files == whole | {name(0): made.SEALED + rest}


def test_a_cleaning_that_did_not_end_is_to_be_recovered_first(root: Path, tmp_path: Path, capsys: Captured) -> None:
    (root / "orders-0" / f"{name(0)}.swap").write_bytes(made.SEALED)
    assert main(["reindex", str(root / "orders-0"), "--out", str(tmp_path / "new")]) == 3
    assert "recover it first" in capsys.readouterr().err


def test_a_directory_without_segments_gets_no_indexes(root: Path, tmp_path: Path) -> None:
    orders = root / "orders-0"
    for log in orders.glob("*.log"):
        log.unlink()
    names = reindexed(root, tmp_path / "new")
    assert not [each for each in names if "index" in each or each.endswith(".snapshot")]


def test_a_transaction_index_without_its_segment_goes(root: Path, tmp_path: Path) -> None:
    whole = reindexed(root, tmp_path / "whole")
    (root / "orders-0" / name(3, ".txnindex")).write_bytes(b"")
    assert reindexed(root, tmp_path / "new") == whole


def test_a_segment_too_wide_for_an_index_is_refused_and_gets_no_index_of_a_part(root: Path, tmp_path: Path) -> None:
    orders = root / "orders-0"
    far = 1 << 32
    last = orders / name(5)
    last.write_bytes(last.read_bytes() + handmade.simple_batch(far, [(b"k", b"v")]))
    names = reindexed(root, tmp_path / "new", code=2)
    assert [each for each in names if str(far) in each] == []


@pytest.mark.parametrize("lost", [".timeindex", ".snapshot"])
def test_side_files_that_a_clean_start_would_make_empty_are_a_warning_whose_command_brings_them_back(
    lost: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that stopped cleanly recovers nothing: without these files it begins with empty ones."""
    monkeypatch.chdir(tmp_path)
    root = LogDirectory(tmp_path / "logs")
    orders = root.partition("orders-0")
    orders.append(10, attributes=handmade.TRANSACTIONAL, producer_id=7, producer_epoch=0)
    orders.epochs([(0, 0)])
    root.high_watermarks(orders_0=10)
    root.checkpoint("recovery-point", orders_0=10)
    whole = reindexed(root.path, tmp_path / "whole")
    for name_, content in whole.items():
        (orders.path / name_).write_bytes(content)
    (root.path / ".kafka_cleanshutdown").write_bytes(b"")
    assert main(["verify", str(root.path)]) == 0
    for path in orders.path.glob(f"*{lost}"):
        path.unlink()
    capsys.readouterr()
    assert main(["verify", str(root.path)]) == 1
    printed = capsys.readouterr().out
    said = "has no time index" if lost == ".timeindex" else "forgets 1 producers, 1 of them in a transaction"
    assert printed.count(said) == 1, printed
    [command] = [text for text in printed.split("`") if text.startswith("loglake reindex ")]
    assert main(shlex.split(command)[1:]) == 0
    assert {path.name for path in (tmp_path / "new" / "orders-0").glob(f"*{lost}")} == {
        each for each in whole if each.endswith(lost)
    }
    (root.path / ".kafka_cleanshutdown").unlink()
    assert main(["verify", str(root.path)]) == 0  # the segments are recovered


def test_old_logs_have_no_time_index_and_no_producers(tmp_path: Path) -> None:
    root = LogDirectory(tmp_path / "logs")
    root.partition("orders-0").append(10)
    (root.path / "orders-0" / f"{0:020d}.index").write_bytes(b"")
    (root.path / "orders-0" / "leader-epoch-checkpoint").unlink()
    (root.path / ".kafka_cleanshutdown").write_bytes(b"")
    root.high_watermarks(orders_0=10)
    assert main(["verify", str(root.path)]) == 0
