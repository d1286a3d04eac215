"""What is registered in the operator's home, and which lake is meant by a name or by partition keys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_jobs.contracts import Intake
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.setup.identity import claim
from spark_jobs.lake.setup.registry import (
    RegistryError,
    key_of,
    recall,
    registration_file,
    registrations,
    remember,
)
from spark_jobs.lake.view.registered_lakes import (
    NoLakeError,
    RegisteredLake,
    find_lake,
    held_logs,
    idle_policies,
    intakes_of,
    read_home,
    read_registered,
    unadopted_sources,
)
from tests.unit.spark_jobs.lake.view.lakes import made


def test_a_registration_that_is_not_one_is_an_error_that_names_its_file_and_hides_no_other(
    home: Path, tmp_path: Path
) -> None:
    good, bad, moved = (str(tmp_path / name) for name in ("good", "bad", "moved"))
    for lake in (good, bad, moved):
        remember(lake, Intake(("/kafka",)))
    Path(registration_file(bad)).write_text(Path(registration_file(bad)).read_text().replace("false", '"false"'))
    os.rename(registration_file(moved), Path(registration_file(moved)).with_name("moved-0123456789ab.json"))

    found = registrations(str(home))

    assert list(found.lakes) == [good]
    assert [lake.path for lake in read_home(str(home)).lakes] == [good]
    assert read_home(str(home)).broken == found.broken
    assert [registration_file(bad) in said or "moved-0123456789ab.json" in said for said in found.broken] == [
        True,
        True,
    ]
    with pytest.raises(RegistryError, match="loglake run PATH"):
        recall(bad)


def test_lakes_of_one_name_at_two_places_are_told_apart(home: Path, tmp_path: Path) -> None:
    lakes = [str(tmp_path / place / "shop") for place in ("a", "b")]
    for lake in lakes:
        remember(lake, Intake(("/kafka",)))
        claim(lake, None)

    with pytest.raises(NoLakeError, match=r"Several lakes are called shop: .*a/shop.*b/shop"):
        find_lake(str(home), "shop", None)
    assert [find_lake(str(home), key_of(lake), None) for lake in lakes] == lakes


def test_a_registered_lake_is_a_value(home: Path, tmp_path: Path) -> None:
    shop, policies = str(tmp_path / "shop"), tmp_path / "policies.yaml"
    policies.write_text('topics: {"*": {publish.max.delay: 86400000}}')
    remember(shop, Intake(("/kafka",), policies=str(policies)))

    (lake,) = read_home(str(home)).lakes

    assert lake == RegisteredLake(shop, (Intake(("/kafka",), policies=str(policies)),), str(policies))
    assert (lake.name, lake.key, lake.is_there, lake.apply_nightly) == ("shop", key_of(shop), True, False)
    assert lake.longest_delay_ms == 86_400_000
    assert RegisteredLake("s3://bucket/lakes/store").is_there
    Path(shop, "sources.json").unlink()
    Path(shop).rmdir()
    assert not lake.is_there


def test_a_lake_that_is_not_registered_has_only_its_path(home: Path, tmp_path: Path) -> None:
    assert read_registered(str(tmp_path / "shop")) == RegisteredLake(str(tmp_path / "shop"))
    assert read_home(str(home)).lakes == ()


def test_sources_that_only_the_lake_names_are_not_taken_in(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = str(tmp_path / "shop")
    remember(lake, Intake(("/kafka/a", "/kafka/b")))
    assert (intakes_of(lake), unadopted_sources(lake)) == ((Intake(("/kafka/a", "/kafka/b")),), ())

    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "another home"))

    assert unadopted_sources(lake) == ("/kafka/a", "/kafka/b")
    with pytest.raises(NoLakeError, match=r"sources.json names /kafka/a, /kafka/b; .*--adopt-sources"):
        intakes_of(lake)
    assert issubclass(NoLakeError, UsageError)


def test_a_lake_is_found_by_the_partitions_it_holds(home: Path, tmp_path: Path) -> None:
    first, second = made(tmp_path / "a", orders_0=1, orders_1=1), made(tmp_path / "b", payments_0=1)
    for lake in (first, second):
        remember(lake, Intake(("/kafka",)))

    assert find_lake(str(home), None, ["orders-1"]) == first
    assert find_lake(str(home), None, ["payments-0"]) == second
    with pytest.raises(NoLakeError, match="in different lakes"):
        find_lake(str(home), None, ["orders-0", "payments-0"])
    with pytest.raises(NoLakeError, match="does not hold orders-7"):
        find_lake(str(home), None, ["orders-0", "orders-7"])
    assert sorted(map(str, held_logs(first).values())) == ["orders-0", "orders-1"]


def test_policies_that_match_no_topic_are_idle(tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    body = "    cleanup.policy: delete\n    retention.ms: -1\n"
    policies.write_text("topics:\n" + "".join(f'  "{glob}":\n{body}' for glob in ("oders*", "pay*")))
    assert idle_policies(str(policies), ["orders", "payments"]) == ("oders*",)
    assert idle_policies(None, ["orders"]) == ()
