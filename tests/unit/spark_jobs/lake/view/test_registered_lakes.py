"""What is registered in the operator's home, and the name that each lake has there."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs.contracts import Intake
from spark_jobs.errors import UsageError
from spark_jobs.lake.setup.lake_names import key_of
from spark_jobs.lake.setup.registry import (
    RegistryError,
    recall,
    register,
    registration_file,
    registrations,
    remember,
)
from spark_jobs.lake.view.registered_lakes import (
    NoSourceError,
    RegisteredLake,
    held_logs,
    home_state,
    ingest_commands,
    intakes_of,
    read_home,
    read_registered,
    unadopted_sources,
)
from spark_jobs.policies.policies_file import NO_POLICIES, read_policies
from tests.conftest import REPOSITORY
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
    with pytest.raises(RegistryError, match="loglake run LOGDIR"):
        recall(bad)


def test_lakes_of_one_name_at_several_places_have_different_names_that_stay(home: Path, tmp_path: Path) -> None:
    lakes = [str(tmp_path / place / "my.shop") for place in ("a", "b", "c/b")]
    for lake in lakes:
        remember(lake, Intake(("/kafka",)))
    also = str(tmp_path / "my-shop")
    register(also)

    found = {lake.path: lake.name for lake in read_home(str(home)).lakes}
    remember(lakes[0], Intake(("/other",)))

    assert found == {
        lakes[0]: "my.shop",
        lakes[1]: "b-my.shop",
        lakes[2]: key_of(lakes[2]),
        also: f"{tmp_path.name}-my-shop",  # as an identifier it would be my_shop once more
    }
    assert {lake.path: lake.name for lake in read_home(str(home)).lakes} == found
    assert [read_registered(lake).name for lake in lakes] == [found[lake] for lake in lakes]
    identifiers = [lake.identifier for lake in read_home(str(home)).lakes]
    assert len(set(identifiers)) == 4
    assert all("__" not in each and each.replace("_", "").isalnum() for each in identifiers)


def test_a_lake_of_odd_letters_has_a_plain_name(home: Path, tmp_path: Path) -> None:
    register(str(tmp_path / "a lake: ü__1"))
    register("s3://bucket/lakes/shop")

    assert [(lake.name, lake.identifier) for lake in read_home(str(home)).lakes] == [
        ("a_lake_____1", "a_lake_1"),
        ("shop", "shop"),
    ]


def test_two_processes_that_register_lakes_at_once_give_them_different_names(home: Path, tmp_path: Path) -> None:
    program = "import sys; from spark_jobs.lake.setup.registry import register; sys.stdin.read(); register(sys.argv[1])"
    lakes = [str(tmp_path / str(number) / "shop") for number in range(4)]
    running = [
        subprocess.Popen([sys.executable, "-c", program, lake], cwd=REPOSITORY, stdin=subprocess.PIPE) for lake in lakes
    ]
    for process in running:
        process.stdin.close()
    assert [process.wait(60) for process in running] == [0] * 4

    stored = [json.loads(Path(registration_file(lake)).read_text())["name"] for lake in lakes]

    assert len(set(stored)) == 4
    assert "shop" in stored


def test_who_registers_a_lake_owns_it_until_the_operator_writes_another(home: Path, tmp_path: Path) -> None:
    lake = str(tmp_path / "shop")
    register(lake)
    assert read_registered(lake).owners == (getpass.getuser(),)

    file = Path(registration_file(lake))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"owners": ["data@example.com"]}))
    remember(lake, Intake(("/kafka",)))

    assert read_registered(lake).owners == ("data@example.com",)


def test_each_change_of_a_registration_is_another_state_of_the_home(home: Path, tmp_path: Path) -> None:
    states = [home_state(str(home))]
    for change in (
        lambda: register(str(tmp_path / "shop")),
        lambda: remember(str(tmp_path / "shop"), Intake(("/kafka",))),
        lambda: os.unlink(registration_file(str(tmp_path / "shop"))),
    ):
        change()
        states.append(home_state(str(home)))

    assert [a != b for a, b in pairwise(states)] == [True] * 3
    assert states[0] == states[3]


def test_each_change_of_a_policies_file_is_another_state_of_the_home(home: Path, tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    remember(str(tmp_path / "shop"), Intake(("/kafka",), policies=str(policies)))
    states = [home_state(str(home))]
    for change in (
        lambda: policies.write_text("lake: {}"),
        lambda: policies.write_text("lake: {ingest: every 5 min}"),
        lambda: policies.unlink(),
        lambda: (tmp_path / "other.yaml").write_text("lake: {}"),
    ):
        change()
        states.append(home_state(str(home)))

    assert [a != b for a, b in pairwise(states)] == [True, True, True, False]


def test_a_registered_lake_is_a_value(home: Path, tmp_path: Path) -> None:
    shop, policies = str(tmp_path / "shop"), tmp_path / "policies.yaml"
    policies.write_text('topics: {"*": {publish.max.delay: 86400000}}')
    remember(shop, Intake(("/kafka",), policies=str(policies)))

    (lake,) = read_home(str(home)).lakes

    assert lake == RegisteredLake(
        shop,
        "shop",
        (Intake(("/kafka",), policies=str(policies)),),
        str(policies),
        owners=(getpass.getuser(),),
    )
    assert (lake.name, lake.key, lake.is_there) == ("shop", key_of(shop), True)
    assert lake.longest_delay_ms == 86_400_000
    assert RegisteredLake("s3://bucket/lakes/store", "store").is_there
    Path(shop, "sources.json").unlink()
    Path(shop).rmdir()
    assert not lake.is_there


def test_a_lake_that_is_not_registered_has_only_its_path(home: Path, tmp_path: Path) -> None:
    assert read_registered(str(tmp_path / "shop")) == RegisteredLake(str(tmp_path / "shop"), "shop")
    assert read_home(str(home)).lakes == ()


def test_sources_that_only_the_lake_names_are_not_taken_in(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = str(tmp_path / "shop")
    remember(lake, Intake(("/kafka/a", "/kafka/b")))
    assert (intakes_of(lake), unadopted_sources(lake)) == ((Intake(("/kafka/a", "/kafka/b")),), ())

    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "another home"))

    assert unadopted_sources(lake) == (Intake(("/kafka/a", "/kafka/b")),)
    for _ in range(2):
        with pytest.raises(NoSourceError, match=f"loglake run /kafka/a /kafka/b --lake {lake}$"):
            intakes_of(lake)
        register(lake)  # without sources: what the lake names is still not used
    assert issubclass(NoSourceError, UsageError)


def test_the_command_that_registers_what_a_lake_names_has_all_its_options_quoted_for_a_shell() -> None:
    named = Intake(
        ("/kafka a", "/b"),
        topics=("shop-*",),
        partitions=(0, 2),
        mode="reference",
        high_watermark="log-end",
        cluster="x y",
        include_internal=True,
        policies="/p;q.yaml",
        isolation_level="read_uncommitted",
        fill_from=("/copy",),
        remote=("s3://tier/a",),
    )
    assert ingest_commands("/my lake", (named, Intake(("/c\n",)))) == (
        "loglake run '/kafka a' /b --lake '/my lake' --topic 'shop-*' --partition 0 --partition 2 --mode reference "
        "--high-watermark log-end --cluster 'x y' --fill-from /copy --remote s3://tier/a --include-internal "
        "--isolation.level read_uncommitted --policies '/p;q.yaml'; "
        "loglake run $'/c\\x0a' --lake '/my lake'"
    )


def test_the_logs_of_a_lake_are_named_as_its_directories(home: Path, tmp_path: Path) -> None:
    assert sorted(map(str, held_logs(made(tmp_path / "a", orders_0=1, orders_1=1)).values())) == [
        "orders-0",
        "orders-1",
    ]


def test_policies_that_match_no_topic_are_idle(tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    body = "    cleanup.policy: delete\n    retention.ms: -1\n"
    policies.write_text("topics:\n" + "".join(f'  "{glob}":\n{body}' for glob in ("oders*", "pay*")))
    [note] = read_policies(str(policies)).idle_notes(["orders", "payments"])
    assert note == f"note: {policies}: the pattern 'oders*' matches no topic; the nearest names are orders."
    assert read_policies(str(policies)).idle_notes([]) == NO_POLICIES.idle_notes(["orders"]) == []


def test_a_pattern_whose_topics_earlier_patterns_match_is_named_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = tmp_path / "policies.yaml"
    patterns = ("a*", "p*", "*s", "x")
    policies.write_text("topics:\n" + "".join(f'  "{glob}": {{salvage: permissive}}\n' for glob in patterns))
    notes = read_policies(str(policies)).idle_notes(["apples", "pears", "x"])
    said = "decides nothing: 'a*' and 'p*' before it matches its topics. Put it first."
    assert notes == [f"note: {policies}: the pattern '*s' {said}"]
    assert read_policies(str(policies)).idle_notes(["apples", "plums", "tomatoes", "x"]) == []
    lines = ("'*': {salvage: permissive}", "orders: {salvage: strict}", "__x: {salvage: strict}")
    policies.write_text("topics:\n" + "".join(f"  {line}\n" for line in lines))
    note = f"note: {policies}: the pattern 'orders' decides nothing: '*' before it matches its topics. Put it first."
    assert read_policies(str(policies)).idle_notes([]) == [note]
    assert main(["config", "check", str(policies)]) == 0
    assert note in capsys.readouterr().err
