"""What the files in `deploy` start, and the environment that they give to it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
CONTAINERS = DEPLOY / "containers"
COMPOSE, KUBERNETES = CONTAINERS / "compose.yaml", CONTAINERS / "kubernetes.yaml"
DOCKERFILE = CONTAINERS / "Dockerfile"


@dataclass(frozen=True)
class Started:
    """A program of ours that a file starts."""

    where: str
    commands: tuple[tuple[str, ...], ...]
    """What it runs, and the probes of it."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Without what the image sets. A value is None if it comes from elsewhere."""

    def __str__(self) -> str:
        return self.where


def services() -> dict[str, dict[str, Any]]:
    """The services of compose.yaml."""
    return yaml.safe_load(COMPOSE.read_text())["services"]


def resources(kind: str) -> list[dict[str, Any]]:
    """The resources of one kind in kubernetes.yaml."""
    return [each for each in yaml.safe_load_all(KUBERNETES.read_text()) if each["kind"] == kind]


def image_environment() -> dict[str, str]:
    """What the last stage of the Dockerfile sets."""
    (block,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    return dict(word.split("=", 1) for word in shlex.split(block.replace("\\\n", " ")))


def everything_started() -> list[Started]:
    """All programs of ours, of all files."""
    return [*of_systemd(), *of_compose(), *of_kubernetes(), *of_the_image()]


def of_systemd() -> Iterator[Started]:
    """The units."""
    for unit in sorted(DEPLOY.glob("*.service")):
        lines = [line.partition("=") for line in unit.read_text().splitlines() if "=" in line]
        commands = tuple(tuple(shlex.split(value)) for name, _, value in lines if name == "ExecStart")
        environment = dict(value.split("=", 1) for name, _, value in lines if name == "Environment")
        yield Started(unit.name, commands, environment)


def of_compose() -> Iterator[Started]:
    """The services of our image."""
    for name, service in services().items():
        if service["image"].startswith("loglake:"):
            check = service.get("healthcheck", {}).get("test", ["CMD"])
            assert check[0] == "CMD"
            commands = ((*service.get("entrypoint", ()), *service["command"]), tuple(check[1:]))
            yield Started(f"compose.yaml: {name}", tuple(filter(None, commands)), service["environment"])


def of_kubernetes() -> Iterator[Started]:
    """The containers."""
    shared = {name: values for each in resources("ConfigMap") for name, values in [(each["metadata"]["name"], each)]}
    for deployment in resources("Deployment"):
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            probes = (container[key] for key in ("startupProbe", "readinessProbe", "livenessProbe") if key in container)
            environment = {each["name"]: each.get("value") for each in container["env"]}
            for source in container["envFrom"]:
                environment |= shared[source["configMapRef"]["name"]]["data"] if "configMapRef" in source else {}
            commands = [container["command"], *(probe["exec"]["command"] for probe in probes)]
            yield Started(f"kubernetes.yaml: {container['name']}", tuple(map(tuple, commands)), environment)


def of_the_image() -> Iterator[Started]:
    """What the image runs without a command."""
    (line,) = re.findall(r"^CMD (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    yield Started("Dockerfile", (tuple(json.loads(line)),))


def names_in(path: Path, pattern: str) -> set[str]:
    """All that the one group of a pattern finds in a file."""
    return set(re.findall(pattern, path.read_text(), re.MULTILINE))
