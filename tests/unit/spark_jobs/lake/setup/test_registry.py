"""What later runs of the same sources need not name again."""

from __future__ import annotations

import pytest

from logcore.logs.model.findings import Finding, Severity
from pipelines.command import run_lake
from pipelines.run.outcome import RunOutcome
from pipelines.run.run_request import RunRequest
from spark_jobs.lake.repair_commands import move_command, replace_command, run_command
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.registry import Intake

LAKE = "/data/lake"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))


def test_a_run_without_policies_keeps_those_of_its_sources():
    registry.remember(LAKE, Intake(sources=("/kafka",), policies="/etc/policies.yaml"))
    registry.remember(LAKE, Intake(sources=("/kafka",)))
    [intake] = registry.recall(LAKE).intakes
    assert intake.policies == "/etc/policies.yaml"


def test_a_run_with_other_policies_replaces_them():
    registry.remember(LAKE, Intake(sources=("/kafka",), policies="/etc/policies.yaml"))
    registry.remember(LAKE, Intake(sources=("/kafka",), policies="/etc/others.yaml"))
    [intake] = registry.recall(LAKE).intakes
    assert intake.policies == "/etc/others.yaml"


def test_policies_of_other_sources_are_not_taken():
    registry.remember(LAKE, Intake(sources=("/kafka",), policies="/etc/policies.yaml"))
    assert registry.as_remembered(LAKE, Intake(sources=("/other",))).policies is None


def test_a_printed_run_takes_no_more_than_the_registered_choice_and_no_less():
    registry.remember(LAKE, Intake(("/a",), topics=("shop-*",), partitions=(0,)))
    assert run_command(LAKE) == f"loglake run /a --lake {LAKE} --topic 'shop-*' --partition 0"
    assert run_command(LAKE, "/a/shop-1-0") == run_command(LAKE)
    assert run_command(LAKE, "/a/shop-1-0", "shop-1", 0) == f"loglake run /a --lake {LAKE} --topic shop-1 --partition 0"
    assert replace_command(LAKE, "shop-1") == f"loglake run /a --lake {LAKE} --topic shop-1 --replace .."
    registry.remember(LAKE, Intake(("/b",), topics=("orders",)))
    assert replace_command(LAKE) == f"loglake run /a /b --lake {LAKE} --topic orders --topic 'shop-*' --replace .."
    assert run_command(LAKE, "/b/orders-3") == f"loglake run /b --lake {LAKE} --topic orders"


def test_a_printed_run_names_all_sources_that_are_read_alike_and_not_those_that_are_gone(tmp_path):
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.mkdir()
    registry.remember(LAKE, Intake((str(gone),)))
    registry.remember(LAKE, Intake((str(there),), policies="/p.yaml"))
    registry.remember(LAKE, Intake((str(tmp_path / "other"),), mode="reference"))
    assert run_command(LAKE) == f"loglake run {there} --lake {LAKE}"
    there.rmdir()
    assert run_command(LAKE) == f"loglake run {gone} {there} --lake {LAKE}"


def test_sources_that_some_logs_left_stay_until_all_have():
    registry.remember(LAKE, Intake(("/a",), topics=("orders",), policies="/p.yaml", mode="reference"))
    registry.remember(LAKE, Intake(("/other",)))
    registry.remember(LAKE, Intake(("/b",)), left=["/a/orders-0"], read=["/a/orders-1", "/b/orders-0"])
    assert [each.sources for each in registry.recall(LAKE).intakes] == [("/a",), ("/other",), ("/b",)]
    registry.remember(LAKE, Intake(("/b",)), left=["/a/orders-1"], read=["/b/orders-0", "/b/orders-1"])
    [_, moved] = registry.recall(LAKE).intakes
    assert moved == Intake(("/b",), topics=("orders",), policies="/p.yaml", mode="reference")


def test_the_command_that_moves_logs_has_the_registered_options_and_those_of_the_run():
    registry.remember(LAKE, Intake(("/a",), topics=("orders",), include_internal=True, fill_from=("/copy",)))
    registry.remember(LAKE, Intake(("/b",), topics=("payments",)))
    end = "--fill-from /copy --include-internal --move-source"
    command = f"loglake run /now --lake {LAKE} --topic"
    assert move_command(LAKE, Intake(("/now",)), ["/a/orders-0"]) == f"{command} orders {end}"
    both = move_command(LAKE, Intake(("/now",)), ["/a/orders-0", "/b/payments-0"])
    assert both == f"{command} orders --topic payments {end}"
    assert move_command(LAKE, Intake(("/now",), topics=("o*",)), ["/a/orders-0"]) == f"{command} 'o*' {end}"


def test_remote_storage_of_these_sources_is_forgotten_and_nothing_else():
    registry.remember(LAKE, Intake(sources=("/kafka",), remote=("s3://tier/a", "/b"), fill_from=("/copy",)))
    registry.remember(LAKE, Intake(sources=("/other",), remote=("/b",)))
    assert registry.forget_remote(LAKE, ["/kafka"]) == ("s3://tier/a", "/b")
    assert registry.forget_remote(LAKE, ["/kafka"]) == ()
    first, other = registry.recall(LAKE).intakes
    assert (first.remote, first.fill_from, other.remote) == ((), ("/copy",), ("/b",))
    assert registry.as_remembered(LAKE, Intake(sources=("/kafka",))).remote == ()


def test_two_intakes_of_a_source_that_cannot_be_joined_keep_their_order():
    one = Intake(("/srv",), topics=("a",), partitions=(0,))
    other = Intake(("/srv",), topics=("b",), partitions=(1,))
    for intake in (one, other):
        registry.remember(LAKE, intake)
    for intake in (one, other, one):
        assert registry.remember(LAKE, intake).intakes == (one, other)


def test_a_copy_to_fill_from_is_forgotten_as_a_source_is(tmp_path):
    lake = str(tmp_path / "lake")
    registry.remember(lake, Intake(("/srv",), fill_from=("/copy", "/other")))
    registry.forget_sources(lake, ["/copy"])
    assert registry.recall(lake).intakes == registry.hinted(lake) == (Intake(("/srv",), fill_from=("/other",)),)


def test_a_refused_copy_is_not_registered(tmp_path):
    request = RunRequest(sources=("/srv",), fill_from=("/copy", "/other"))
    refused = Finding("copies-undecided", Severity.ERROR, "It is not taken.", file="/copy/orders-0")
    run_lake._register(str(tmp_path), request, RunOutcome("", {}, of_paths=(refused,)), ())
    assert [each.fill_from for each in registry.recall(str(tmp_path)).intakes] == [("/other",)]
