"""What a webhook is posted, by a real server on loopback and a real instance."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines import alerts as module
from pipelines.alerts import KEPT_MS, NotDelivered, alerts, post, post_alerts
from pipelines.catalog.names import LAKE_TAG
from spark_jobs.contracts import Intake
from spark_jobs.errors import StorageError
from spark_jobs.lake.setup.registry import remember
from spark_jobs.lake.store import lease
from spark_jobs.lake.view.alarms import Problem
from spark_jobs.lake.view.registered_lakes import home_folder, read_home
from spark_jobs.lake.view.runs.run_ends import RunEnds, keep_run_end
from tests.dagster.conftest import Define, Execute
from tests.dagster.fake_jobs import World

pytestmark = [pytest.mark.dagster, pytest.mark.stored]

NOON = 1_800_000_000_000
MINUTE = 60_000
SECRET = "s3cr3t-t0ken"


class Receiver:
    """A webhook that keeps what it was posted, and answers with a status."""

    def __init__(self) -> None:
        self.documents: list[dict[str, Any]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.status == 200:
                    outer.documents.append(json.loads(body))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{SECRET}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


class Ticks:
    """Ticks one after another over the registered lakes."""

    def __init__(self) -> None:
        self.cursor: str | None = None
        self.warnings: list[str] = []
        self.failed: list[dict[str, str]] = []

    def tick(self, now_ms: int = NOON) -> list[str]:
        failed, self.failed = self.failed, []
        self.cursor, lines = post_alerts(
            read_home(home_folder()).lakes,
            self.cursor,
            now_ms,
            lambda lake, after_ms: failed,
            self.warnings.append,
        )
        return lines


@pytest.fixture
def lake(execute: Execute, world: World, home: Path, source: Path, receiver: Receiver) -> str:
    """A lake with a damaged log and a webhook."""
    world.ends, world.corrupt = {"orders-0": 9, "orders-1": 9}, {"orders-0": (4, 6)}
    lake = str(home / "lakes" / "shop")
    assert execute(lake=lake).success
    _register(lake, source, f"lake: {{alerts.webhook: '{receiver.address}'}}")
    return lake


def _register(lake: str, source: Path, policies: str) -> None:
    path = source.parent / "policies.yaml"
    path.write_text(policies)
    remember(lake, Intake((str(source),), policies=str(path)))


def test_damage_is_reported_within_one_tick_and_once(lake: str, receiver: Receiver) -> None:
    ticks = Ticks()
    for minute in range(5):
        ticks.tick(NOON + minute * MINUTE)

    (document,) = receiver.documents
    assert (document["format"], document["lake"], document["counts"]) == (1, lake, {"damage": 1})
    (problem,) = document["problems"]
    assert problem["place"].startswith("orders-0 of lake shop, offsets [4, 6)")
    assert ticks.warnings == []


def test_an_address_that_is_not_set_is_said_once_also_where_there_is_nothing_to_post(
    lake: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOGLAKE_TEST_HOOK", raising=False)
    monkeypatch.setattr(module, "problems_of", lambda *_: ())
    _register(lake, source, "lake: {alerts.webhook: 'env:LOGLAKE_TEST_HOOK'}")
    ticks = Ticks()
    for minute in range(3):
        ticks.tick(NOON + minute * MINUTE)
    (warning,) = ticks.warnings
    assert "environment variable LOGLAKE_TEST_HOOK, which is not set here" in warning


def test_the_end_of_all_problems_is_reported_too(
    lake: str, receiver: Receiver, world: World, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = Ticks()
    ticks.tick()
    monkeypatch.setattr(module, "problems_of", lambda *_: ())
    ticks.tick(NOON + MINUTE)

    summaries = [document["summary"] for document in receiver.documents]
    assert summaries == ["lake shop: 1 damage", "lake shop: all problems are gone"]
    assert [document["severity"] for document in receiver.documents] == ["error", "info"]


@pytest.mark.parametrize("is_down", [False, True])
def test_the_end_of_failed_runs_without_a_problem_is_reported_once_a_later_run_succeeded(
    is_down: bool, lake: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that succeeded came before the tick that reports the failed one."""
    monkeypatch.setattr(module, "problems_of", lambda *_: ())
    ticks = Ticks()
    ticks.tick()
    receiver.status = 503 if is_down else 200
    ticks.failed = [{"run_id": "run-1", "job": "shop__intake"}]
    ticks.tick(NOON + MINUTE)
    ends = RunEnds(succeeded_ms=1, failed_ms=2)
    monkeypatch.setattr(module, "run_ends", lambda *_: {"intake": RunEnds(), "maintenance": ends})
    for minute in range(2, 20):
        ticks.tick(NOON + minute * MINUTE)
        receiver.status = 200
    assert [document["severity"] for document in receiver.documents] == ["error"], "maintenance still fails"
    monkeypatch.setattr(module, "run_ends", lambda *_: {"intake": RunEnds(), "maintenance": RunEnds(3, 2)})
    for minute in range(20, 23):
        ticks.tick(NOON + minute * MINUTE)

    said = [(document["severity"], document["summary"]) for document in receiver.documents]
    assert said == [("error", "lake shop: 1 failed run"), ("info", "lake shop: all problems are gone")]


@pytest.mark.parametrize("status", [500, 404, 302])
def test_a_message_that_is_not_taken_is_posted_again_until_it_is(lake: str, receiver: Receiver, status: int) -> None:
    receiver.status = status
    ticks = Ticks()
    for minute in range(200):
        assert ticks.tick(NOON + minute * MINUTE) == []
    tries = len(ticks.warnings)
    receiver.status = 200
    for minute in range(200, 220):
        ticks.tick(NOON + minute * MINUTE)

    assert len(receiver.documents) == 1
    assert 4 < tries < 25
    assert SECRET not in "".join(ticks.warnings) + (ticks.cursor or "")


def test_a_message_is_dropped_after_a_day_and_the_tick_says_so(lake: str, receiver: Receiver) -> None:
    receiver.close()
    try:
        ticks = Ticks()
        ticks.tick()
        ticks.tick(NOON + KEPT_MS)
        assert "is dropped after 2 tries: 127.0.0.1 did not answer" in ticks.warnings[-1]
        ticks.tick(NOON + 2 * KEPT_MS)
        assert len(ticks.warnings) == 2
    finally:
        receiver.__init__()  # type: ignore[misc] - for the end of the fixture


def test_five_thousand_problems_are_one_message(lake: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    many = tuple(Problem("damage", f"orders-{number}", "corrupt", "loglake status shop") for number in range(5000))
    monkeypatch.setattr(module, "problems_of", lambda *_: many)
    ticks = Ticks()
    ticks.tick()
    ticks.tick(NOON + MINUTE)

    (document,) = receiver.documents
    assert (document["summary"], len(document["problems"])) == ("lake shop: 5,000 damage", 20)
    assert len(ticks.cursor or "") < 500


def test_lag_above_the_limit_and_a_missed_schedule_are_reported(lake: str, receiver: Receiver, source: Path) -> None:
    policies = f"lake: {{alerts.webhook: '{receiver.address}', alerts.max.lag: 0, ingest: every 5 min}}"
    _register(lake, source, policies)
    ticks = Ticks()
    keep_run_end(lake, "intake", NOON - 15 * MINUTE)
    ticks.tick()
    ticks.tick(NOON + MINUTE)

    counts = [document["counts"] for document in receiver.documents]
    assert counts == [{"damage": 1, "lag": 1}, {"damage": 1, "lag": 1, "missed-schedule": 1}]


def test_runs_that_failed_while_the_webhook_was_away_are_reported_later(lake: str, receiver: Receiver) -> None:
    ticks = Ticks()
    ticks.tick()
    receiver.status = 503
    for number in (1, 2):
        ticks.failed = [{"run_id": f"run-{number}", "job": "shop__intake"}]
        ticks.tick(NOON + number * MINUTE)
    receiver.status = 200
    ticks.tick(NOON + 10 * MINUTE)

    assert [run["run_id"] for run in receiver.documents[-1]["failed_runs"]] == ["run-1", "run-2"]
    assert receiver.documents[-1]["summary"] == "lake shop: 1 damage, 2 failed runs"


def test_a_source_that_vanished_is_reported_with_severity_and_the_command_to_type(
    lake: str, receiver: Receiver, world: World, execute: Execute, source: Path
) -> None:
    gone = str(source.parent / "not-mounted")
    assert not execute(lake=lake, sources=[gone]).success
    Ticks().tick()

    (document,) = receiver.documents
    (unread,) = [problem for problem in document["problems"] if problem["kind"] == "unread-source"]
    assert gone in unread["what"]
    assert (unread["severity"], unread["command"]) == ("error", f"loglake doctor --lake {lake}")
    assert (document["severity"], document["command"]) == ("error", f"loglake status {lake}")
    assert document["name"] == "shop"


def test_the_sensor_finds_the_failed_runs_of_the_instance(
    lake: str,
    receiver: Receiver,
    define: Define,
    instance: dg.DagsterInstance,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOGLAKE_UI_ADDRESS", "https://pages")
    definitions = define()
    with dg.build_sensor_context(instance=instance, definitions=definitions) as context:
        cursor = alerts.evaluate_tick(context).cursor
    job = definitions.resolve_job_def("shop__intake")
    run, of_another_lake = (instance.create_run_for_job(job, tags={LAKE_TAG: name}) for name in ("shop", "store"))
    instance.report_run_failed(of_another_lake)
    instance.report_run_failed(run)
    with dg.build_sensor_context(instance=instance, definitions=definitions, cursor=cursor) as context:
        alerts.evaluate_tick(context)

    assert alerts.default_status is dg.DefaultSensorStatus.RUNNING
    assert [document["failed_runs"] for document in receiver.documents] == [
        [],
        [{"run_id": run.run_id, "job": "shop__intake", "link": f"https://pages/runs/{run.run_id}"}],
    ]


def test_a_lake_whose_policies_have_a_mistake_does_not_hide_the_others(
    lake: str, receiver: Receiver, home: Path, source: Path, execute: Execute
) -> None:
    other = str(home / "lakes" / "aaa")
    assert execute(lake=other).success
    wrong = source.parent / "wrong.yaml"
    wrong.write_text("lake: {}")
    remember(other, Intake((str(source),), policies=str(wrong)))
    wrong.write_text("lake: {alerts.webhook: gopher}")
    ticks = Ticks()
    ticks.tick()

    assert len(receiver.documents) == 1
    assert len(ticks.warnings) == 1
    assert "wrong.yaml, line 1" in ticks.warnings[0]


@pytest.mark.parametrize(
    "broken",
    [
        "lake:\n  ingest: every 1 min\n  alerts.webhook: {0}\ntopics:\n  orders: {{on_gon: warn}}\n",
        "lake: {{alerts.webhook: '{0}', ingest: evry 1 min}}\n",
        "lake:\n  alerts.webhook: {0}  # of the team\n  ingest: [every 1 min\ntopics: {{}}\n",
        "topics: [\nlake: {{alerts.webhook: '{0}'}}\n",
    ],
    ids=["a setting of a topic", "a setting of the lake", "no YAML", "no YAML before it"],
)
def test_policies_that_cannot_be_used_are_an_alert_to_the_webhook_that_they_name(
    lake: str, receiver: Receiver, source: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    sound = f"lake: {{alerts.webhook: '{receiver.address}', ingest: every 1 min}}"
    monkeypatch.setattr(module, "problems_of", lambda *_: ())
    _register(lake, source, sound)
    keep_run_end(lake, "intake", NOON + 8 * MINUTE)
    ticks = Ticks()
    ticks.tick()
    (source.parent / "policies.yaml").write_text(broken.format(receiver.address))
    for minute in range(1, 4):
        ticks.tick(NOON + minute * MINUTE)

    (document,) = receiver.documents
    assert (document["severity"], document["counts"]) == ("error", {"unread-lake": 1})
    (problem,) = document["problems"]
    assert (problem["severity"], problem["place"]) == ("error", "the policies")
    assert problem["what"].startswith(f"policies of lake shop cannot be used: {source.parent / 'policies.yaml'}, line ")
    assert problem["command"] == f"loglake config check {source.parent / 'policies.yaml'}"
    assert SECRET not in (ticks.cursor or "") + str(document)

    (source.parent / "policies.yaml").write_text(sound)
    ticks.tick(NOON + 9 * MINUTE)
    assert receiver.documents[1]["summary"] == "lake shop: all problems are gone"


def test_damage_is_reported_also_while_the_policies_cannot_be_used(lake: str, receiver: Receiver, source: Path) -> None:
    (source.parent / "policies.yaml").write_text(f"lake: {{alerts.webhook: '{receiver.address}'}}\ntopic: {{}}\n")
    Ticks().tick()

    assert [document["counts"] for document in receiver.documents] == [{"damage": 1, "unread-lake": 1}]


@pytest.mark.parametrize("of_variable", [True, False])
def test_policies_that_are_gone_are_an_alert_to_the_last_address_if_it_holds_no_secret(
    lake: str, receiver: Receiver, source: Path, monkeypatch: pytest.MonkeyPatch, of_variable: bool
) -> None:
    monkeypatch.setenv("LOGLAKE_TEST_WEBHOOK", receiver.address)
    address = "env:LOGLAKE_TEST_WEBHOOK" if of_variable else receiver.address
    _register(lake, source, f"lake: {{alerts.webhook: '{address}'}}")
    ticks = Ticks()
    ticks.tick()
    (source.parent / "policies.yaml").unlink()
    for minute in range(1, 4):
        ticks.tick(NOON + minute * MINUTE)

    later = [document["counts"] for document in receiver.documents[1:]]
    assert later == [{"damage": 1, "unread-lake": 1}] * of_variable
    assert len(ticks.warnings) == (0 if of_variable else 3)
    assert SECRET not in (ticks.cursor or "")


@pytest.mark.parametrize("how", ["is gone", "is not mounted", "is damaged", "does not answer"])
def test_a_lake_that_cannot_be_examined_has_no_end_of_its_problems(
    lake: str, receiver: Receiver, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = Ticks()
    ticks.tick()
    away = Path(f"{lake}-away")
    if how in ("is gone", "is not mounted"):
        Path(lake).rename(away)
        if how == "is not mounted":
            Path(lake).mkdir()
    elif how == "is damaged":
        for commit in Path(lake, "tables", "logs", "_delta_log").glob("*.json"):
            commit.write_bytes(b"\xff")
    else:
        monkeypatch.setattr(module, "read_state", _raise_store_error)
    for minute in range(1, 4):
        ticks.tick(NOON + minute * MINUTE)

    is_known = how != "does not answer"
    assert [document["counts"] for document in receiver.documents[1:]] == [{"unread-lake": 1}] * is_known
    assert len(ticks.warnings) == (0 if is_known else 3)
    if away.exists():
        away.rename(lake)
        ticks.tick(NOON + 9 * MINUTE)
        assert receiver.documents[-1]["counts"] == {"damage": 1}


def test_a_lake_whose_first_run_is_under_way_has_no_problem(lake: str, receiver: Receiver) -> None:
    ticks = Ticks()
    ticks.tick()
    Path(lake).rename(f"{lake}-away")
    with lease.hold(lake, "loglake run"):
        ticks.tick(NOON + MINUTE)

    assert [document["counts"] for document in receiver.documents] == [{"damage": 1}]
    assert ticks.warnings == []


@pytest.mark.parametrize(
    ("scheme", "rest", "is_kept"),
    [
        ("env:HOOK", "", True),
        ("http:", "127.0.0.1:9095", True),
        ("https:", "[::1]:9095/", True),
        ("http:", "localhost", True),
        ("https:", "t0ken-hooks", False),
        ("https:", "hooks.t0ken/", False),
        ("http:", "127.0.0.1/t0ken", False),
        ("http:", "user:t0ken@localhost", False),
        ("http:", "localhost?t0ken", False),
    ],
)
def test_an_address_is_kept_only_if_no_part_of_it_may_be_a_secret(scheme: str, rest: str, is_kept: bool) -> None:
    assert module._is_public("//".join(filter(None, (scheme, rest)))) == is_kept


def _raise_store_error(lake: str) -> None:
    raise StorageError("the store does not answer")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("env:LOGLAKE_TEST_NO_SUCH", "LOGLAKE_TEST_NO_SUCH is not set"),
        ("file:" + "///etc/passwd", "not an http"),
        ("http://127.0.0.1:1/token", "127.0.0.1 did not answer"),
        ("http:" + "//[broken/token", "cannot be parsed"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_clear_line_without_its_secret(address: str, words: str) -> None:
    with pytest.raises(NotDelivered, match=words) as caught:
        post(address, {}, timeout_s=2)
    assert "token" not in str(caught.value)


def test_an_address_may_come_from_the_environment(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_TEST_WEBHOOK", receiver.address)
    post("env:LOGLAKE_TEST_WEBHOOK", {"a": 1})
    assert receiver.documents == [{"a": 1}]
