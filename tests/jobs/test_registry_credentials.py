"""`decode` from a schema registry that asks for credentials: it gets them, and they are nowhere else."""

from __future__ import annotations

import base64
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.jobs.registered_schemas import Registered, avro, named, zigzag
from tests.registry_server import Registry

PASSWORD = "planted-registry-password"
LOGIN = f"reader:{PASSWORD}"
BASIC = base64.b64encode(LOGIN.encode()).decode()
FORMS = (PASSWORD, BASIC)
"""How the secret is written; none of them may be seen."""
VERSIONS = "/subjects/orders-value/versions"
ANSWERS: dict[str, object] = {
    f"{VERSIONS}?deleted=true": [1],
    f"{VERSIONS}/1?deleted=true": {
        "subject": "orders-value",
        "version": 1,
        "id": 1,
        "schema": avro({"name": "id", "type": "long"}),
    },
}
FROM_VARIABLE = "    decode.schemas.credentials: env:REGISTRY_LOGIN\n"
FROM_FILE = "    decode.schemas.credentials: login\n"


@pytest.fixture
def lake(tmp_path: Path) -> Registered:
    made = Registered(tmp_path)
    made.append((b"a", named(1, zigzag(7))))
    return made


@pytest.mark.parametrize("place", [FROM_VARIABLE, FROM_FILE])
def test_a_registry_with_a_password_decodes_and_its_report_has_no_secret(
    lake: Registered, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    if place == FROM_VARIABLE:
        monkeypatch.setenv("REGISTRY_LOGIN", LOGIN)
    else:
        lake.policies.with_name("login").write_text(LOGIN + "\n")
    with Registry(ANSWERS, f"Basic {BASIC}") as registry, caplog.at_level(logging.DEBUG):
        lake.policy(place, place=registry.address)
        report = lake.decode()
    assert report.plan.topics[0].waits is None
    assert lake.values() == [{"id": 7}]
    assert [form for form in FORMS if form in report.to_json() or form in caplog.text] == []


def test_a_topic_waits_without_a_secret_in_its_line_if_the_registry_refuses(
    lake: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_LOGIN", LOGIN)
    with Registry(ANSWERS, "Basic other") as registry:
        lake.policy(FROM_VARIABLE, place=registry.address)
        report = lake.decode()
    assert "status 401. Check the credentials in env:REGISTRY_LOGIN" in str(report.plan.topics[0].waits)
    assert [form for form in FORMS if form in report.to_json()] == []


def test_another_password_does_not_make_rows_wait(lake: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    with Registry(ANSWERS) as registry:
        lake.policy(FROM_VARIABLE, place=registry.address)
        for number, login in enumerate((LOGIN, "reader:other")):
            monkeypatch.setenv("REGISTRY_LOGIN", login)
            lake.append((b"a", named(1, zigzag(number))))
            assert lake.said() is None
    assert len(registry.authorizations) == 4
    assert lake.values() == [{"id": 7}, {"id": 0}, {"id": 1}]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_the_password_is_in_no_output_no_argument_and_no_file(lake: Registered, engine: str) -> None:
    """Rows of more than 1 MiB, so that workers decode them: they and Spark get no password either."""
    rows = [(os.urandom(512), named(1, zigzag(number))) for number in range(3000)]
    for start in range(0, len(rows), 500):
        lake.append(*rows[start : start + 500])
    home = Path(os.environ["LOGLAKE_HOME"])
    seen: list[str] = []
    environment = os.environ | {"REGISTRY_LOGIN": LOGIN, "LOGLAKE_JOB_ENGINE": engine}
    with Registry(ANSWERS, f"Basic {BASIC}") as registry:
        lake.policy(FROM_VARIABLE + "    decode.key: bytes\n", place=registry.address)
        lake.policies.write_text(lake.policies.read_text().replace("    decode.key: string\n", ""))
        command = [sys.executable, "-m", "logcore.cli.main", "decode", lake.path, "--policies", str(lake.policies)]
        process = subprocess.Popen(
            command, env=environment, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while process.poll() is None:
            seen += _arguments_below(process.pid)
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert len(lake.rows()) == len(rows) + 1
    assert len(set(seen)) > 1  # of workers too
    written = [path for root in (home, Path(lake.path)) for path in root.rglob("*") if path.is_file()]
    assert len(written) > 10
    for form in FORMS:
        assert form not in output + errors
        assert [each for each in seen if form in each] == []
        assert [path for path in written if form.encode() in path.read_bytes()] == []


def _arguments_below(pid: int) -> list[str]:
    """Command lines of a process and of all below it."""
    found, waiting = [], [pid]
    while waiting:
        folder = Path("/proc", str(waiting.pop()))
        try:
            found.append((folder / "cmdline").read_text())
            for task in (folder / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (OSError, UnicodeDecodeError):
            continue
    return found
