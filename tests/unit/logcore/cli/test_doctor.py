"""`loglake doctor` without a lake: each fault of an installation is one line, and decides the exit code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from logcore.cli.doctor.checks import CheckState, InstallationCheck, exit_code, text_line
from logcore.cli.main import main
from tests import handmade
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS

Captured = pytest.CaptureFixture[str]


@dataclass(frozen=True)
class Answer:
    """What a call of the command printed."""

    code: int
    checks: list[dict[str, str]]

    def of(self, name: str) -> list[dict[str, str]]:
        return [each for each in self.checks if each["check"] == name]

    def one(self, name: str) -> dict[str, str]:
        (found,) = self.of(name)
        return found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and the kernels where they are cached; no home of a clone in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LOGLAKE_ENGINE", raising=False)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("LOGLAKE_SPARK_MASTER", raising=False)
    return tmp_path / "home"


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    folder = tmp_path / "logs" / "orders-0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000000.log").write_bytes(handmade.simple_batch(0, [(b"planted-key", b"planted-value")]))
    return folder.parent


def doctor(capsys: Captured, *arguments: str) -> Answer:
    capsys.readouterr()
    code = main(["doctor", "--format", "jsonl", *arguments])
    printed = capsys.readouterr()
    assert printed.err == ""
    return Answer(code, [json.loads(line) for line in printed.out.splitlines()])


def in_a_process(*arguments: str, **variables: str) -> Answer:
    """The command in a process of its own; modules in a given PYTHONPATH replace those of the repository."""
    command = [sys.executable, "-m", "logcore.cli.main", "doctor", "--format", "jsonl", *arguments]
    variables["PYTHONPATH"] = os.pathsep.join([*filter(None, [variables.get("PYTHONPATH")]), str(REPOSITORY)])
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
        cwd="/",
    )
    return Answer(done.returncode, [json.loads(line) for line in done.stdout.splitlines()])


def test_an_installation_in_order_is_clean(capsys: Captured, log_directory: Path) -> None:
    answer = doctor(capsys, str(log_directory))
    assert {each["check"] for each in answer.checks if each["state"] in ("warning", "failed")} == set()
    assert answer.code == 0
    assert answer.one("source")["text"].endswith("can be read, 1 logs")
    checked = {each["check"] for each in answer.checks}
    assert {"loglake", "kernels", "codecs", "tmpdir", "home"} <= checked


def test_each_check_is_one_line_for_people(capsys: Captured) -> None:
    main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 5
    assert {line.split()[0] for line in lines} <= {"ok", "info"}
    check = InstallationCheck("source", CheckState.FAILED, "two\nlines", "do\nthat")
    assert text_line(check) == "failed   source       two lines To do: do that\n"


def test_the_worst_check_decides_the_exit_code() -> None:
    made = [InstallationCheck("a", state, "") for state in CheckState]
    assert [exit_code(made[: number + 1]) for number in range(4)] == [0, 0, 1, 3]


def test_a_path_that_is_missing_is_named_and_cannot_work(capsys: Captured, tmp_path: Path) -> None:
    answer = doctor(capsys, str(tmp_path / "nothing"), str(tmp_path))
    assert answer.code == 3
    assert [each["state"] for each in answer.of("source")] == ["failed", "failed"]
    assert f"{tmp_path}/nothing does not exist" in answer.of("source")[0]["text"]
    assert "0 logs can be read" in answer.of("source")[1]["text"]


def test_a_segment_that_cannot_be_opened_is_named_and_not_its_content(capsys: Captured, log_directory: Path) -> None:
    (log_directory / "orders-0" / "00000000000000000009.log").symlink_to("/nowhere/else.log")
    answer = doctor(capsys, str(log_directory))
    assert answer.code == 3
    assert "00000000000000000009.log" in answer.one("source")["text"]
    assert "planted" not in json.dumps(answer.checks)


def test_a_home_that_cannot_be_written_is_named(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", "/proc/loglake")  # no user may write there, not even root
    answer = doctor(capsys)
    assert answer.code == 3
    assert answer.one("home")["state"] == "failed"
    assert "/proc/loglake" in answer.one("home")["text"]
    assert "LOGLAKE_HOME" in answer.one("home")["advice"]


def test_a_home_below_a_file_is_named(capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "file" / "home"))
    assert doctor(capsys).one("home")["state"] == "failed"


def test_a_filesystem_with_little_room_is_a_warning(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("there is no /dev/shm, a small filesystem")
    free = shutil.disk_usage("/dev/shm").free
    monkeypatch.setattr("logcore.cli.doctor.installation.LOW_BYTES", free + (1 << 20))
    monkeypatch.setenv("LOGLAKE_HOME", "/dev/shm")
    answer = doctor(capsys)
    assert answer.code == 1
    assert "has only" in answer.one("home")["text"]


def test_the_reference_engine_is_a_warning(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    answer = doctor(capsys)
    assert answer.code == 1
    assert answer.one("kernels")["state"] == "warning"
    assert answer.one("kernels")["advice"] == "Unset LOGLAKE_ENGINE."


def test_a_machine_without_llvm_falls_back_to_the_reference(tmp_path: Path) -> None:
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text("raise ImportError('no LLVM here')\n")
    answer = in_a_process(PYTHONPATH=str(tmp_path))
    assert answer.code == 1
    assert "no LLVM here" in answer.one("kernels")["text"]
    assert "reference engine" in answer.one("kernels")["text"]


def test_kernels_that_are_not_compiled_yet_are_information(tmp_path: Path) -> None:
    import logcore

    copy = Path(shutil.copytree(Path(logcore.__file__).parent, tmp_path / "code" / "logcore"))
    walk = copy / "columns" / "kernels" / "decoding" / "batches.py"
    walk.write_text(walk.read_text() + "\n# changed\n")  # its object code is in no cache
    answer = in_a_process(PYTHONPATH=str(copy.parent))
    kernels = answer.one("kernels")
    assert kernels["state"] == "info"
    assert "not compiled yet" in kernels["text"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "package"),
    [("lz4.block._block", "lz4"), ("zstandard._cffi", "zstandard"), ("isal.igzip_lib", "isal")],
)
def test_a_wheel_that_hides_a_function_is_named(module: str, package: str, tmp_path: Path) -> None:
    """The library of the module is replaced by another one, which has none of its functions."""
    other = find_spec("crc32c._crc32c")
    assert other is not None
    assert other.origin is not None
    real = find_spec(package)
    assert real is not None
    assert real.origin is not None
    copy = Path(shutil.copytree(Path(real.origin).parent, tmp_path / package))
    *_, name = module.split(".")
    (library,) = list(copy.rglob(f"{name}.*so"))
    shutil.copy(other.origin, library)
    for init in copy.rglob("__init__.py"):
        init.write_text("")  # nothing there loads the library as a module of Python
    answer = in_a_process(PYTHONPATH=str(tmp_path))
    assert answer.code in (1, 3)
    assert answer.one("codecs")["state"] == "warning"
    assert package in answer.one("codecs")["text"]


def test_a_check_that_fails_by_itself_does_not_stop_the_others(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("planted-secret")

    monkeypatch.setattr("logcore.cli.doctor.installation.engine_check", fail)
    answer = doctor(capsys)
    assert answer.code == 3
    assert answer.one("kernels")["text"] == "The check itself failed with RuntimeError."
    assert answer.one("home")["state"] == "ok"


@pytest.mark.long
def test_a_store_that_does_not_answer_is_one_line_without_secrets() -> None:
    """In a process of its own: a process remembers that a store was silent."""
    variables = {"ENDPOINT_URL": "http://127.0.0.1:9", "ALLOW_HTTP": "true", "ACCESS_KEY_ID": "planted-id"}
    settings = {f"AWS_{name}": value for name, value in {**variables, "SECRET_ACCESS_KEY": "planted-secret"}.items()}
    answer = in_a_process("s3://bucket/logs", "s3://", LOGLAKE_STORE_TIMEOUT="2", **settings)
    assert answer.code == 3
    assert [each["state"] for each in answer.of("source")] == ["failed", "failed"]
    assert "the object store at http://127.0.0.1:9" in answer.of("source")[0]["text"]
    assert "planted" not in json.dumps(answer.checks)
