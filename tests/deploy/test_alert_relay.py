"""The example that passes alerts on to a chat and a pager: what Loglake posts arrives in the form that these take."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipelines.alerts import NotDelivered, post, post_alerts
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup.identity import claim
from spark_jobs.lake.setup.registry import remember
from spark_jobs.lake.view.registered_lakes import home_folder, read_home
from spark_jobs.lake.view.runs.run_ends import keep_run_end
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS

NOON = 1_800_000_000_000


class Services:
    """A chat and a pager that keep what they get, by path."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.status = 202
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def services() -> Iterator[Services]:
    made = Services()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def relay(services: Services) -> Iterator[str]:
    """The address of the relay, which runs as a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {"LOGLAKE_CHAT_URL": f"{services.address}/chat", "LOGLAKE_PAGER_URL": f"{services.address}/pager"}
    process = subprocess.Popen(
        [sys.executable, REPOSITORY / "deploy" / "alert_relay.py"],
        env=os.environ | variables | {"LOGLAKE_PAGER_KEY": "key", "LOGLAKE_RELAY_PORT": str(port)},
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=WAIT_SECONDS)


def test_a_problem_reaches_chat_and_pager_and_its_end_resolves_the_incident(
    relay: str, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    lake = str(tmp_path / "shop")
    claim(lake, "test")
    policies = tmp_path / "policies.yaml"
    policies.write_text(f"lake: {{alerts.webhook: '{relay}'}}")
    source = tmp_path / "kafka"
    source.mkdir()
    (source / "meta.properties").touch()  # it is back
    remember(lake, Intake((str(source),), policies=str(policies)))
    keep_run_end(lake, "intake", NOON, "SourceUnread", "/srv/kafka does not exist.")
    cursor = None
    failed = [{"run_id": "r1", "job": "shop__intake", "link": "https://pages/runs/r1"}]
    for runs in (failed, []):
        warnings: list[object] = []
        cursor, lines = post_alerts(
            read_home(home_folder()).lakes, cursor, NOON, lambda *_, runs=runs: runs, warnings.append
        )
        assert (len(lines), warnings) == (1, [])
        keep_run_end(lake, "intake", NOON + 1)

    (_, chat), (_, opened), (_, calm), (_, closed) = services.got
    assert [path for path, _ in services.got] == ["/chat", "/pager"] * 2
    assert chat == {
        "text": "*error* lake shop: 1 unread-source, 1 failed run\n"
        "• the sources: /srv/kafka does not exist.\n"
        f"  `loglake doctor --lake {lake}`\n"
        "• failed: shop__intake https://pages/runs/r1\n"
        f"What now: `loglake status {lake}`"
    }
    assert calm["text"].startswith("*info* lake shop: all problems are gone\n")
    assert (opened["routing_key"], opened["event_action"], opened["dedup_key"]) == ("key", "trigger", f"loglake {lake}")
    assert opened["payload"]["summary"] == "lake shop: 1 unread-source, 1 failed run"
    assert (opened["payload"]["severity"], opened["payload"]["source"]) == ("error", lake)
    assert opened["links"] == [{"href": "https://pages/runs/r1", "text": "shop__intake"}]
    assert (closed["event_action"], closed["dedup_key"]) == ("resolve", f"loglake {lake}")


def test_a_message_that_a_service_does_not_take_is_posted_again_by_loglake(relay: str, services: Services) -> None:
    services.status = 503
    alert = {"severity": "info", "summary": "", "lake": "s", "command": "", "problems": [], "failed_runs": []}
    with pytest.raises(NotDelivered, match="502"):
        post(relay, alert)
