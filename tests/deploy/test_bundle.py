"""`deploy/bundle.sh` and `install.sh`: a folder from which Loglake is installed without a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.deploy.manifests import CONTAINERS, DEPLOY
from tests.repository import wheels

NO_REGISTRY = re.compile(r"Failed to establish a new connection|Name or service not known|Temporary failure in name")


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = os.environ | {"PYTHON": sys.executable} | environment
    return subprocess.run([*map(str, command)], env=given, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.long
@pytest.mark.slow
def test_a_bundle_installs_what_the_plain_wheel_needs_and_works(tmp_path: Path, sample) -> None:
    bundle, environment = tmp_path / "bundle", tmp_path / "environment"
    done = run(DEPLOY / "bundle.sh", bundle, environment, EXTRAS="")
    if NO_REGISTRY.search(done.stderr):
        pytest.skip("no package registry can be reached from here")
    assert done.returncode == 0, done.stderr

    lock = (REPOSITORY / "requirements.lock").read_text()
    needed = (bundle / "requirements.txt").read_text()
    entries = re.split(r"\n(?=\w)", needed.strip())
    assert {entry.split("==")[0] for entry in entries} == wheels.closure(wheels.required(wheels.built(tmp_path / "w")))
    assert [entry for entry in entries if entry not in lock] == []
    names = subprocess.run([environment / "bin" / "loglake", "--version"], capture_output=True, text=True, check=True)
    assert names.stdout == "loglake 0.1.0\n"
    verified = run(environment / "bin" / "loglake", "verify", sample("codecs-v2-4.3.1").logdir)
    assert verified.returncode == 0, verified.stderr
    assert not (bundle / "jars").exists()

    refused = run(DEPLOY / "bundle.sh", bundle, EXTRAS="")
    assert (refused.returncode, refused.stderr) == (64, f"bundle: {bundle} is not empty; name a new folder\n")
    wheel = next((bundle / "packages").glob("lz4-*"))
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 1
    wheel.write_bytes(content)
    damaged = run(bundle / "install.sh", tmp_path / "other")
    assert damaged.returncode == 2
    assert f"packages/{wheel.name}: FAILED" in damaged.stderr + damaged.stdout
    assert not (tmp_path / "other").exists()


def test_a_file_that_is_missing_stops_an_installation_before_it_begins(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "install.sh", tmp_path)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  ./packages/gone.whl\n")
    done = run(tmp_path / "install.sh", tmp_path / "environment")
    assert done.returncode == 2
    assert "./packages/gone.whl" in done.stderr
    assert "nothing was installed" in done.stderr
    assert not (tmp_path / "environment").exists()


def test_a_folder_without_digests_is_not_installed(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "install.sh", tmp_path)
    assert run(tmp_path / "install.sh", tmp_path / "environment").returncode == 2


@pytest.mark.parametrize("script", ["bundle.sh", "install.sh"])
def test_a_wrong_call_shows_the_usage(script: str) -> None:
    done = run(DEPLOY / script)
    assert done.returncode == 64
    assert done.stderr.startswith("usage: ")


def test_the_context_of_the_image_has_all_that_the_wheel_needs(tmp_path: Path) -> None:
    """What the ignore file lets through is enough for the same wheel."""
    lines = (CONTAINERS / "Dockerfile.dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    context = tmp_path / "context"
    context.mkdir()
    for name in (line.removeprefix("!") for line in lines if line.startswith("!")):
        here = REPOSITORY / name
        if here.is_dir():
            shutil.copytree(here, context / name, ignore=shutil.ignore_patterns("__pycache__", ".env"))
        else:
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here, context / name)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "wheels")]
    subprocess.run(build, cwd=context, check=True, capture_output=True, timeout=WAIT_SECONDS)
    (made,) = (tmp_path / "wheels").glob("*.whl")
    assert made.read_bytes() == wheels.built(tmp_path / "ordinary").read_bytes()
    assert (context / "deploy" / "containers" / "dagster" / "workspace.yaml").exists()
    assert os.access(context / "deploy" / "bundle.sh", os.X_OK)
