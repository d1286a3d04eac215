"""The arrangement of compose.yaml: three processes of Dagster, and a real PostgreSQL.

The commands are those of the file, on loopback and other ports: once as processes of this machine, once inside the
image. The network and the limits of containers are not run.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_jobs.engine.job_engine import JOB_ENGINE_VARIABLE, JobEngine
from tests.broker_directory import LogDirectory
from tests.deploy import image, manifests, postgres
from tests.pages import Pages, free_port, wait_for

pytestmark = pytest.mark.dagster

Program = Callable[[Sequence[str]], list[str]]
"""The words that start a program of ours."""

ASSETS = "query { assetNodes { assetKey { path } partitionKeys } }"
LOCATIONS = """query { workspaceOrError { ... on Workspace { locationEntries {
  locationOrLoadError { __typename } } } } }"""
MADE = """query { assetNodes(assetKeys: [{path: ["shop", "records"]}]) {
  assetMaterializations(limit: 10) { partition } } }"""
RUNS = "query { runsOrError { ... on Runs { results { runId jobName status } } } }"


@dataclass(frozen=True)
class Service:
    """One of the services, and the file with what it wrote."""

    process: subprocess.Popen[bytes]
    log: Path


@dataclass(frozen=True)
class Arrangement:
    """Running services, as their containers see each other."""

    folder: Path
    environment: dict[str, str]
    program: Program
    processes: dict[str, subprocess.Popen[bytes]]
    pages: Pages

    def log(self, service: str) -> str:
        return (self.folder / f"{service}.log").read_text()


def of_this_machine(words: Sequence[str]) -> list[str]:
    return [sys.executable if words[0] == "python" else str(Path(sys.executable).with_name(words[0])), *words[1:]]


def of_the_image(container: str, folder: Path, settings: Path, variables: Path) -> Program:
    """A program inside the image, which sees the folder at its own path.

    Args:
        variables: A file with lines `NAME=value`. Words of a command would show the password.
    """
    within = ["--volume", f"{folder}:{folder}", "--volume", f"{settings}:/opt/loglake/dagster:ro"]
    within += ["--volume", f"{variables}:/variables:ro", "--workingdir", str(folder)]
    start = ["sh", "-c", 'set -a; . /variables; exec "$@"', "sh"]
    return lambda words: [*image.INSIDE, *within, container, "--", *start, *words]


def loaded(pages: Pages) -> bool:
    entries = pages.ask(LOCATIONS)["workspaceOrError"]["locationEntries"]
    return [(each["locationOrLoadError"] or {}).get("__typename") for each in entries] == ["RepositoryLocation"]


def succeeds(command: list[str], environment: dict[str, str]) -> bool:
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module", params=["machine", pytest.param("image", marks=pytest.mark.long)])
def services(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arrangement]:
    folder = tmp_path_factory.mktemp("compose")
    container = request.getfixturevalue("container") if request.param == "image" else None
    settings = folder / "settings"
    shutil.copytree(manifests.CONTAINERS / "dagster", settings)
    code, web = free_port(), free_port()
    workspace = settings / "workspace.yaml"
    assert "port: 4000" in workspace.read_text()
    workspace.write_text(workspace.read_text().replace("port: 4000", f"port: {code}"))
    moved = {
        "0.0.0.0": "127.0.0.1",
        "4000": str(code),
        "3000": str(web),
        "/opt/loglake/dagster/workspace.yaml": str(workspace),
    }
    processes: dict[str, subprocess.Popen[bytes]] = {}
    check: list[str] = []
    with postgres.running() as database:
        given = database | {JOB_ENGINE_VARIABLE: JobEngine.LOCAL}
        given |= {"LOGLAKE_HOME": str(folder / "home"), "DAGSTER_HOME": str(settings)}
        given |= {"DAGSTER_FILES": str(folder / "home" / "dagster"), "DAGSTER_CODE_HOST": "127.0.0.1"}
        environment = os.environ | given
        program: Program = of_this_machine
        if container is not None:
            variables = tmp_path_factory.mktemp("variables") / "variables"
            inside = given | {"DAGSTER_HOME": "/opt/loglake/dagster"}
            variables.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in inside.items()))
            for kept in (folder, variables.parent):
                image.hand_over(kept)
            program = of_the_image(container, folder, settings, variables)
        try:
            for started in manifests.of_compose():
                name = started.where.removeprefix("compose.yaml: ")
                if name == "loglake":
                    continue
                words = program([moved.get(word, word) for word in started.commands[0]])
                with (folder / f"{name}.log").open("wb") as log:
                    processes[name] = subprocess.Popen(
                        words, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
                    )
                if name == "code-location":
                    check = program([moved.get(word, word) for word in started.commands[1]])
            # All at once, as the containers of a pod start: the others find the code location when it answers.
            running = [Service(process, folder / f"{name}.log") for name, process in processes.items()]
            wait_for(lambda: succeeds(check, environment), *running)
            pages = Pages(web, processes["webserver"], folder / "webserver.log")
            wait_for(lambda: loaded(pages), *running)
            yield Arrangement(folder, environment, program, processes, pages)
        finally:
            for process in processes.values():
                process.send_signal(signal.SIGTERM)
            for process in processes.values():
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def command_lines() -> str:
    """The arguments of all processes of this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has ended
    return "\n".join(found)


def test_a_lake_appears_on_the_pages_and_its_runs_share_one_history(services: Arrangement) -> None:
    source = LogDirectory(services.folder / "logs")
    source.partition("orders-0").append(4)
    source.high_watermarks(orders_0=4)
    assert services.pages.ask(ASSETS)["assetNodes"] == []

    command = services.program(["loglake", "run", str(source.path), "--lake", str(services.folder / "shop")])
    done = subprocess.run(command, cwd=services.folder, env=services.environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    wait_for(
        lambda: services.pages.ask(ASSETS)["assetNodes"], services.pages
    )  # the code location loaded them again by itself
    assert services.pages.ask(MADE)["assetNodes"] == [{"assetMaterializations": [{"partition": "orders-0"}]}]

    chosen = [{"path": ["shop", asset]} for asset in ("archived_segments", "validated_segments", "records")]
    state = services.pages.backfill(assetSelection=chosen, allPartitions=True)

    assert state["status"] == "COMPLETED_SUCCESS", services.log("daemon") + services.log("code-location")
    runs = services.pages.ask(RUNS)["runsOrError"]["results"]
    assert [each["status"] for each in runs] == ["SUCCESS"]
    assert sorted((services.folder / "home" / "dagster").glob(f"{state['runs'][0]['id']}/compute_logs/*.err"))


def test_the_history_is_in_the_database_and_nowhere_else(services: Arrangement) -> None:
    import dagster as dg
    from dagster_postgres import DagsterPostgresStorage

    assert list(services.folder.rglob("*.db")) == []
    assert sorted(path.name for path in (services.folder / "settings").iterdir()) == ["dagster.yaml", "workspace.yaml"]
    with pytest.MonkeyPatch.context() as patched:
        for name, value in services.environment.items():
            patched.setenv(name, value)
        with dg.DagsterInstance.from_config(str(services.folder / "settings")) as instance:
            assert isinstance(instance._ref.storage, DagsterPostgresStorage)
            assert [heartbeat for heartbeat in instance.get_daemon_statuses().values() if heartbeat.healthy]


def test_the_password_is_in_no_log_and_in_no_command_line(services: Arrangement) -> None:
    password = services.environment["DAGSTER_POSTGRES_PASSWORD"]
    assert str(services.folder) in command_lines()  # it sees the processes
    assert password not in command_lines()
    kept = [path for path in services.folder.rglob("*") if path.is_file()]
    assert len(kept) > 10
    assert [path for path in kept if password.encode() in path.read_bytes()] == []


def test_a_service_ends_when_it_is_asked_to(services: Arrangement) -> None:
    for name in ("daemon", "webserver", "code-location"):
        services.processes[name].send_signal(signal.SIGTERM)
        # buildah ends with 1 if a signal ended what it ran
        ended = (0, -signal.SIGTERM) if services.program is of_this_machine else (0, -signal.SIGTERM, 1)
        assert services.processes[name].wait(30) in ended, services.log(name)
