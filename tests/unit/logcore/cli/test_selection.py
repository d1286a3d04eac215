"""A choice that matches nothing is reported with the nearest names. A choice hides the findings of other topics."""

import json
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]

COMMANDS = (["ls"], ["dump"], ["dump", "--batches"], ["ledger"], ["transactions"], ["offsets", "--at", "latest"])


@pytest.fixture
def shop(root: Path) -> Path:
    """`orders-0`, of which there is nothing to say, and `payments-1`."""
    orders = root / "orders-0"
    (orders / f"{0:020d}.index").write_bytes(struct.pack(">ii", 3, len(made.FIRST)))
    (orders / f"{0:020d}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 9, 3, 4, 5))
    (orders / f"{5:020d}.index").touch()
    other = root / "payments-1"
    other.mkdir()
    (other / f"{0:020d}.log").write_bytes(made.FIRST)
    (other / f"{0:020d}.index").touch()
    made.identify(other)
    (other / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
    (root / "replication-offset-checkpoint").write_text("0\n2\norders 0 8\npayments 1 3\n")
    return root


def verified(capsys: Captured, code: int, *arguments: str) -> list[dict]:
    assert main(["verify", "--format", "jsonl", *arguments]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()[:-1]]


@pytest.mark.parametrize("asked", ["oders", "oders*", "Orders", "order"])
def test_verify_could_not_check_a_topic_that_is_not_there_and_names_the_nearest(
    shop: Path, capsys: Captured, asked: str
) -> None:
    (finding,) = verified(capsys, 3, str(shop), "--topic", asked)
    assert (finding["rule"], finding["severity"]) == ("nothing-chosen", "error")
    assert repr(asked) in finding["message"]
    assert "orders" in finding["message"].split("nearest")[1]
    assert "payments" not in finding["message"]


def test_verify_says_which_of_several_topics_is_not_there_and_checks_the_others(shop: Path, capsys: Captured) -> None:
    lines = verified(capsys, 3, str(shop), "--topic", "orders", "--topic", "paymets")
    (finding,) = [line for line in lines if line["rule"] == "nothing-chosen"]
    assert "'paymets'" in finding["message"]
    assert "'orders'" not in finding["message"]
    assert main(["verify", "--topic", "orders", "--topic", "paymets", str(shop)]) == 3
    assert "2 files" in capsys.readouterr().out


def test_verify_names_the_partitions_that_there_are(shop: Path, capsys: Captured) -> None:
    (finding,) = verified(capsys, 3, str(shop), "--topic", "orders", "--partition", "7")
    assert "--partition 7" in finding["message"]
    assert "orders-0" in finding["message"]


def test_topics_and_partitions_that_exist_but_not_together_are_reported(shop: Path, capsys: Captured) -> None:
    (finding,) = verified(capsys, 3, str(shop), "--topic", "orders", "--partition", "1")
    assert "orders-0" in finding["message"]


def test_where_no_name_is_near_some_are_listed(shop: Path, capsys: Captured) -> None:
    (finding,) = verified(capsys, 3, str(shop), "--topic", "zzz")
    assert "orders, payments" in finding["message"]


def test_the_text_of_verify_says_it_too(shop: Path, capsys: Captured) -> None:
    assert main(["verify", "--topic", "oders", str(shop)]) == 3
    assert "error nothing-chosen: --topic 'oders'" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["ls", "ledger"])
@pytest.mark.parametrize("choice", [("--topic", "oders"), ("--topic", "orders", "--partition", "7")], ids=" ".join)
def test_ls_and_ledger_of_a_choice_that_matches_nothing_end_with_3(
    shop: Path, capsys: Captured, choice: tuple[str, ...], command: str
) -> None:
    for form in ("text", "jsonl"):
        assert main([command, str(shop), *choice, "--format", form]) == 3
        captured = capsys.readouterr()
        assert captured.out == ""
        assert f"error nothing-chosen: {choice[-2]} " in captured.err
        assert "orders" in captured.err


def test_ls_lists_what_a_choice_matches_beside_what_matches_nothing(shop: Path, capsys: Captured) -> None:
    assert main(["ls", str(shop), "--topic", "orders", "--topic", "paymets"]) == 3
    captured = capsys.readouterr()
    assert "orders-0" in captured.out
    assert "the nearest names are payments" in captured.err


@pytest.mark.parametrize("command", [each for each in COMMANDS[1:] if each != ["ledger"]], ids=" ".join)
def test_other_commands_say_it_in_a_note(shop: Path, capsys: Captured, command: list[str]) -> None:
    assert main([*command, str(shop), "--topic", "oders*"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "info nothing-chosen: --topic 'oders*' matches no topic" in captured.err
    assert "orders" in captured.err.split("nearest")[1]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_choice_that_matches_says_nothing(shop: Path, capsys: Captured, command: list[str]) -> None:
    assert main([*command, str(shop), "--topic", "ord*", "--partition", "0"]) == 0
    assert capsys.readouterr().err == ""


def test_checkpoints_of_topics_whose_directory_is_gone_are_no_empty_choice(shop: Path, capsys: Captured) -> None:
    made.write_checkpoint(shop, "log-start-offset-checkpoint", gone=5)
    assert main(["dump", "--checkpoints", str(shop), "--topic", "gone"]) == 0
    captured = capsys.readouterr()
    assert "gone" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("what", [[], ["--batches"], ["--format", "jsonl"], ["--format", "csv"], ["--all"]])
def test_offsets_beyond_the_end_are_reported_with_the_existing_offsets(
    shop: Path, capsys: Captured, what: list[str]
) -> None:
    assert main(["dump", str(shop), "--topic", "orders", "--offsets", "9999..", *what]) == 3
    assert (
        "error nothing-chosen: --offsets 9999.. matches nothing: orders-0 contains offsets [0, 8)."
        in capsys.readouterr().err
    )


def test_offsets_above_the_high_watermark_are_beyond_what_is_shown(shop: Path, capsys: Captured) -> None:
    made.write_checkpoint(shop, "replication-offset-checkpoint", orders=5)
    assert main(["dump", str(shop / "orders-0"), "--offsets", "6..8"]) == 0
    assert "orders-0 shows offsets [0, 5) of [0, 8)" in capsys.readouterr().err
    assert main(["dump", str(shop / "orders-0"), "--offsets", "6..8", "--all"]) == 0
    assert capsys.readouterr().err == ""


def test_offsets_below_the_log_start_are_reported(shop: Path, capsys: Captured) -> None:
    made.write_checkpoint(shop, "log-start-offset-checkpoint", orders=3)
    assert main(["dump", str(shop / "orders-0"), "--offsets", "0..2"]) == 3
    assert "orders-0 shows offsets [3, 8)" in capsys.readouterr().err


def test_offsets_that_one_of_several_logs_holds_are_not_reported(shop: Path, capsys: Captured) -> None:
    assert main(["dump", str(shop), "--offsets", "5.."]) == 0
    assert capsys.readouterr().err == ""
    assert main(["dump", str(shop), "--offsets", "8.."]) == 0
    assert "orders-0 contains offsets [0, 8), payments-1 contains offsets [0, 3)" in capsys.readouterr().err


def test_findings_of_topics_that_were_not_chosen_are_not_reported(shop: Path, capsys: Captured) -> None:
    (shop / "payments-1" / "server.log").write_text("")
    (shop / "payments-1" / "leader-epoch-checkpoint").write_text("?")
    (shop / "backup").mkdir()
    (shop / "or ders-0").mkdir()
    (shop / "gone-0").symlink_to("nowhere")
    assert verified(capsys, 0, str(shop), "--topic", "orders") == []
    chosen = verified(capsys, 3, str(shop), "--topic", "payments")
    rules = {line["rule"] for line in chosen}
    assert rules == {"not-a-segment", "broken-partition-file", "leader-epochs-unproven"}
    others = {line["rule"] for line in verified(capsys, 3, str(shop))} - rules
    assert others == {"unknown-directory", "illegal-topic-name", "unreadable"}


def test_findings_of_files_that_all_topics_need_are_reported_whatever_is_chosen(
    shop: Path, tmp_path: Path, capsys: Captured
) -> None:
    root = tmp_path / "kafka-logs-1"
    shop.rename(root)
    (root / "replication-offset-checkpoint").write_text("garbage")
    found = [line["rule"] for line in verified(capsys, 3, str(root), str(tmp_path / "gone-0"), "--topic", "orders")]
    assert found == ["broken-root-file", "no-high-watermark", "path-not-found"]


def test_a_missing_high_watermark_of_a_directory_without_chosen_logs_is_not_reported(
    shop: Path, tmp_path: Path, capsys: Captured
) -> None:
    other = tmp_path / "other" / "audit-0"
    other.mkdir(parents=True)
    (other / f"{0:020d}.log").write_bytes(made.FIRST)
    assert verified(capsys, 0, str(shop), str(other.parent), "--topic", "orders") == []


def test_offsets_after_damage_are_not_reported_as_unmatched(shop: Path, capsys: Captured) -> None:
    path = shop / "orders-0" / f"{5:020d}.log"
    sound = path.read_bytes()
    damaged = bytearray(sound)
    damaged[8:12] = struct.pack(">i", 1 << 30)  # the length of the first batch
    path.write_bytes(damaged)
    assert main(["dump", "--all", "--offsets", "6..7", str(path.parent)]) in (0, 1, 2)
    assert "matches nothing" not in capsys.readouterr().err
