"""The files in `deploy`: they keep their schemas, and name commands, options and variables that exist.

No test here starts a container. test_services_of_compose.py runs the commands of compose.yaml as processes.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from logcore.cli.main import main
from pipelines.ui import code_location
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.deploy import manifests
from tests.deploy.manifests import COMPOSE, CONTAINERS, DEPLOY, DOCKERFILE, KUBERNETES, Started

STARTED = manifests.everything_started()
SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|ACCESS_KEY")
PYTHON_OWN = {"PATH", "PYTHONUNBUFFERED"}


def compose_schema_says(file: Path) -> subprocess.CompletedProcess[str]:
    """Of a file, with the schema that the package of the program brings: no network."""
    program = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS)


def hadolint_says(text: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("hadolint is not installed: its package has a program for x86-64 and Linux only")
    return subprocess.run([program, "-"], input=text, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS)


def test_the_compose_file_keeps_the_schema_of_the_compose_specification():
    done = compose_schema_says(COMPOSE)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("right", "wrong"), [("cap_drop:", "cap_dorp:"), ("restart: unless-stopped", "restart: 3"), ("ports: [", "port: [")]
)
def test_a_mistake_in_the_compose_file_is_seen(tmp_path: Path, right: str, wrong: str):
    assert right in COMPOSE.read_text()
    (tmp_path / "compose.yaml").write_text(COMPOSE.read_text().replace(right, wrong))
    assert compose_schema_says(tmp_path / "compose.yaml").returncode == 1


def check_kubernetes(text: str, version: str = "1.37") -> int:
    """Number of resources that keep the schemas of a version; raises for one that does not."""
    checked = list(yaml.safe_load_all(text))
    for resource in checked:
        kubernetes_validate.validate(resource, version, strict=True)
    return len(checked)


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_each_kubernetes_resource_keeps_its_schema(version: str):
    assert check_kubernetes(KUBERNETES.read_text(), version) == 4


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("runAsNonRoot", "runAsNonroot"), ("replicas: 1", "replicas: one"), ("readinessProbe", "readynessProbe")],
)
def test_a_mistake_in_a_kubernetes_resource_is_seen(right: str, wrong: str):
    assert right in KUBERNETES.read_text()
    with pytest.raises(kubernetes_validate.ValidationError):
        check_kubernetes(KUBERNETES.read_text().replace(right, wrong))


def test_hadolint_finds_nothing_in_the_dockerfile():
    done = hadolint_says(DOCKERFILE.read_text())
    assert (done.returncode, done.stdout) == (0, "")


def test_a_mistake_in_the_dockerfile_is_seen():
    text = DOCKERFILE.read_text()
    assert "DL3000" in hadolint_says(text.replace("WORKDIR /build", "WORKDIR build")).stdout
    assert "DL3007" in hadolint_says(text.replace("FROM ${BASE} AS build", "FROM python:latest AS build")).stdout


def click_parses(command: Any, words: list[str]) -> None:
    """Parse words as a command of Dagster does, without running it.

    Raises:
        click.UsageError: There is no such command or option.
    """
    context = command.make_context(command.name, [in_this_tree(word) for word in words])
    if hasattr(command, "resolve_command"):
        _, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        click_parses(inner, rest)


def in_this_tree(word: str) -> str:
    """A path of the image as one of this work tree."""
    return word.replace("/opt/loglake/dagster", str(CONTAINERS / "dagster"))


@cache
def dagster_program(name: str) -> Any:
    """The click command of a program or module."""
    from dagster._cli import create_dagster_cli
    from dagster._daemon.cli import create_dagster_daemon_cli
    from dagster_webserver.cli import dagster_webserver

    programs = {
        "dagster": create_dagster_cli,
        "dagster-daemon": create_dagster_daemon_cli,
        "loglake.ui.webserver": lambda: dagster_webserver,
    }
    return programs[name]()


def check_command(words: list[str]) -> None:
    """Raise what says that a command does not exist, or has no such option."""
    program, *arguments = words
    if program.rpartition("/")[2] == "loglake":
        assert main([*arguments, "--help"]) == 0
    elif program == "python" and arguments[0] == "-c":
        ast.parse(arguments[1])
    elif program == "python":
        assert arguments[0] == "-m"
        assert importlib.util.find_spec(arguments[1]) is not None
        if arguments[1] == "loglake.ui.code_location":
            code_location.build_parser().parse_args(arguments[2:])
        else:
            click_parses(dagster_program(arguments[1]), arguments[2:])
    else:
        click_parses(dagster_program(program), arguments)


@pytest.mark.parametrize("started", STARTED, ids=str)
def test_each_command_and_its_options_exist(started: Started, capsys: pytest.CaptureFixture[str]):
    for words in started.commands:
        check_command(list(words))
        if words[0].rpartition("/")[2] == "loglake":
            shown = capsys.readouterr().out
            assert [word for word in words[1:] if word.startswith("--") and word not in shown] == []


@pytest.mark.parametrize(
    "words",
    [
        ["python", "-m", "loglake.ui.webserver", "--prot", "3000"],
        ["dagster-daemon", "start"],
        ["dagster", "api", "grpc-health-check", "--hots", "127.0.0.1"],
        ["python", "-m", "loglake.ui.code_location", "--prot", "4000"],
        ["python", "-m", "loglake.no_such_module"],
    ],
)
def test_a_command_that_does_not_exist_is_seen(words: list[str]):
    with pytest.raises((Exception, SystemExit)):
        check_command(words)


def product_variables() -> set[str]:
    """Names of variables that a string in the product states as a whole."""
    found: set[str] = set()
    for package in ("logcore", "spark_jobs", "pipelines"):
        for path in (REPOSITORY / package).rglob("*.py"):
            found |= manifests.names_in(path, r"""["']((?:LOGLAKE|DAGSTER)_[A-Z_]+)["']""")
    return found


def instance_variables() -> set[str]:
    """Names that the settings of Dagster take from the environment."""
    pattern = r"\{env: (\w+)\}"
    return {name for path in (CONTAINERS / "dagster").iterdir() for name in manifests.names_in(path, pattern)}


def documented_store_variables() -> set[str]:
    return manifests.names_in(REPOSITORY / "docs" / "deploy.md", r"`(AWS_[A-Z_]+)")


@pytest.mark.parametrize("started", [*STARTED, Started("the image", (), manifests.image_environment())], ids=str)
def test_each_variable_is_one_that_the_product_reads(started: Started):
    known = product_variables() | instance_variables() | documented_store_variables() | PYTHON_OWN
    assert len(known) > 20
    assert set(started.environment) - known == set()


@pytest.mark.parametrize(
    "started", [each for each in STARTED if each.where.startswith(("compose", "kubernetes"))], ids=str
)
def test_each_container_has_all_variables_that_dagsters_settings_take(started: Started):
    assert instance_variables() - set(started.environment) - set(manifests.image_environment()) == set()
    assert started.environment["DAGSTER_HOME"] == "/opt/loglake/dagster"


def test_the_settings_of_dagster_differ_from_those_of_one_machine_in_the_storage_alone():
    here, there = (
        yaml.safe_load(path.read_text()) for path in (DEPLOY / "dagster.yaml", CONTAINERS / "dagster" / "dagster.yaml")
    )
    assert set(there) - set(here) == {"storage", "compute_logs", "local_artifact_storage"}
    assert {name: there[name] for name in here} == here


def test_the_example_of_settings_has_the_variables_of_the_compose_file():
    stated = manifests.names_in(CONTAINERS / ".env.example", r"^(?:# )?([A-Z_]+)=")
    passed_on = {name for each in manifests.of_compose() for name, value in each.environment.items() if value is None}
    assert stated == manifests.names_in(COMPOSE, r"(?<!\$)\$\{(\w+)") | passed_on


def test_settings_with_secrets_are_ignored_by_git():
    ignored = ["git", "check-ignore", "--quiet", "deploy/containers/.env"]
    assert subprocess.run(ignored, cwd=REPOSITORY, check=False).returncode == 0


def test_no_secret_is_in_a_file_or_in_a_command():
    for started in STARTED:
        for name, value in started.environment.items():
            if SECRET.search(name):
                assert value is None or str(value).startswith("${"), (started.where, name)
        assert not any(SECRET.search(word) for words in started.commands for word in words)
    for deployment in manifests.resources("Deployment"):
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            secrets = [each for each in container["env"] if SECRET.search(each["name"])]
            assert [list(each["valueFrom"]) for each in secrets] == [["secretKeyRef"]]
    example = (CONTAINERS / ".env.example").read_text()
    assert [line for line in example.splitlines() if re.match(r"(# )?\w*(PASSWORD|SECRET|TOKEN|KEY)\w*=.", line)] == []
    assert manifests.resources("Secret") == []


def listening(words: tuple[str, ...]) -> list[str]:
    """The addresses after `-h` and `--host`."""
    return [after for word, after in pairwise(words) if word in ("-h", "--host")]


@pytest.mark.parametrize("started", STARTED, ids=str)
def test_programs_listen_on_loopback_except_inside_of_the_network_of_compose(started: Started):
    for words in started.commands:
        served = {"ui", "loglake.ui.webserver", "loglake.ui.code_location"} & set(words)
        wide = started.where in ("compose.yaml: webserver", "compose.yaml: code-location") and served
        assert listening(words) == (["0.0.0.0"] if wide else ["127.0.0.1"]) or not (served or listening(words))


def test_compose_publishes_the_pages_alone_and_on_loopback():
    published = {name: service["ports"] for name, service in manifests.services().items() if "ports" in service}
    assert published == {"webserver": ["127.0.0.1:${PAGES_PORT:-3000}:3000"]}
    assert [name for name, service in manifests.services().items() if "network_mode" in service] == []


def test_kubernetes_lets_no_port_out_of_a_pod():
    assert manifests.resources("Service") == manifests.resources("Ingress") == []
    assert manifests.names_in(KUBERNETES, r"^[^#]*?\b(hostNetwork|hostPort|ports):") == set()


def test_the_image_states_the_ports_that_its_commands_use():
    assert manifests.names_in(DOCKERFILE, r"^EXPOSE (.*)$") == {"3000 4000"}


def test_nothing_runs_as_root():
    users = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert users == [("10001", "10001")]
    for deployment in manifests.resources("Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False  # services must not set DAGSTER_... and LOGLAKE_... variables
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
    for name, service in manifests.services().items():
        if name != "postgres":  # its image starts as root, and goes on as its own user
            assert service["cap_drop"] == ["ALL"]
            assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_source_is_read_only_in_containers():
    for name, service in manifests.services().items():
        mounts = [each for each in service["volumes"] if each.split(":")[-2] == "/var/kafka-logs"]
        assert name == "postgres" or [each.endswith(":ro") for each in mounts] == [True]


def test_each_container_has_memory_that_it_may_use():
    for deployment in manifests.resources("Deployment"):
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            assert {"cpu", "memory"} == set(container["resources"]["requests"])
            assert "memory" in container["resources"]["limits"]


def test_images_are_pinned_by_version_and_ours_has_that_of_the_project():
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    images = manifests.names_in(COMPOSE, r"^ +image: (\S+)") | manifests.names_in(KUBERNETES, r"^ +image: (\S+)")
    images |= manifests.names_in(DOCKERFILE, r"^ARG BASE=(\S+)")
    assert set(manifests.names_in(DOCKERFILE, r"^FROM (\S+)")) == {"${BASE}"}
    assert {image for image in images if image.startswith("loglake")} == {f"loglake:{version}"}
    assert len(images) == 3
    assert [image for image in images if not re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?(-[a-z-]+)?", image)] == []


def test_the_daemon_and_the_watch_run_once():
    for deployment in manifests.resources("Deployment"):
        assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})


def test_the_port_of_the_database_is_stated_in_kubernetes():
    (settings,) = manifests.resources("ConfigMap")
    assert settings["data"]["DAGSTER_POSTGRES_PORT"] == "5432"


def test_files_that_pyproject_names_in_deploy_exist():
    named = manifests.names_in(REPOSITORY / "pyproject.toml", r"\b(deploy/[\w./-]*\w)")
    assert len(named) > 3
    assert [each for each in named if not (REPOSITORY / each).exists()] == []


def test_claims_and_mounts_fit_each_other():
    claims = {each["metadata"]["name"] for each in manifests.resources("PersistentVolumeClaim")}
    for deployment in manifests.resources("Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        volumes = {each["name"]: each for each in pod["volumes"]}
        named = {each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"] if "emptyDir" not in each}
        assert named == claims
        for container in pod["containers"]:
            assert {each["name"] for each in container["volumeMounts"]} == set(volumes)
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"] == labels


def test_folders_of_the_containers_are_those_that_the_image_makes():
    home = manifests.image_environment()["LOGLAKE_HOME"]
    assert f"install -d -o loglake -g loglake /srv/loglake {home}" in DOCKERFILE.read_text()
    assert manifests.image_environment()["LOGLAKE_JARS_DIR"] == "/opt/loglake/jars"
    assert "/bundle/jars /opt/loglake/jars" in DOCKERFILE.read_text()
    workspaces = {
        word for each in STARTED for words in each.commands for word in words if word.endswith("workspace.yaml")
    }
    assert workspaces == {"/opt/loglake/dagster/workspace.yaml"}
