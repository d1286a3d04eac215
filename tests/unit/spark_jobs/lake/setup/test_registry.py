"""What later runs of the same sources need not name again."""

from __future__ import annotations

import pytest

from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.registration import Intake

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


def test_remote_storage_of_these_sources_is_forgotten_and_nothing_else():
    registry.remember(LAKE, Intake(sources=("/kafka",), remote=("s3://tier/a", "/b"), fill_from=("/copy",)))
    registry.remember(LAKE, Intake(sources=("/other",), remote=("/b",)))
    assert registry.forget_remote(LAKE, ["/kafka"]) == ("s3://tier/a", "/b")
    assert registry.forget_remote(LAKE, ["/kafka"]) == ()
    first, other = registry.recall(LAKE).intakes
    assert (first.remote, first.fill_from, other.remote) == ((), ("/copy",), ("/b",))
    assert registry.as_remembered(LAKE, Intake(sources=("/kafka",))).remote == ()
