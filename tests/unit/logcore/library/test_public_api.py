"""`import logcore` offers what `__all__` names, loads each name when it is used, and costs next to nothing."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import logcore
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS

PAGE = (REPOSITORY / "docs" / "library.md").read_text()


def fresh_python(code: str) -> str:
    """Output of a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_takes_less_than_50_ms_and_loads_nothing_else() -> None:
    code = (
        "import sys, time; before = set(sys.modules); t = time.perf_counter(); import logcore; "
        "print(time.perf_counter() - t, *{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    runs = [fresh_python(code).split() for _ in range(5)]
    assert min(float(seconds) for seconds, *_ in runs) < 0.050
    assert set(runs[0][1:]) == {"logcore"}


def test_a_name_loads_what_it_needs_and_no_more() -> None:
    code = "import sys, logcore; logcore.{}; print('pyarrow' in sys.modules, 'numba' in sys.modules)"
    assert fresh_python(code.format("Record")).split() == ["False", "False"]
    assert fresh_python(code.format("open_log_directory")).split() == ["False", "False"]
    assert fresh_python(code.format("RECORDS_SCHEMA")).split() == ["True", "False"]


def test_opening_and_reading_batch_headers_loads_no_arrow(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").touch()
    code = (
        f"import sys, logcore; log = logcore.open_partition({str(tmp_path / 'orders-0')!r}); list(log.batches()); "
        "list(log.ledger()); log.transactions(); log.offset_for_time(0); print('pyarrow' in sys.modules)"
    )
    assert fresh_python(code).split() == ["False"]


def test_every_public_name_is_there() -> None:
    assert len(logcore.__all__) == len(set(logcore.__all__))
    for name in logcore.__all__:
        assert getattr(logcore, name) is not None, name
    assert set(logcore.__all__) <= set(dir(logcore))


def test_star_import_gives_the_public_names() -> None:
    assert fresh_python("from logcore import *; print(open_log_directory.__name__)").split() == ["open_log_directory"]


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'logcore' has no attribute 'open_topic'"):
        logcore.open_topic  # noqa: B018


def test_the_type_checker_and_the_interpreter_take_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(logcore.__file__).read_text())
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(typed.test) == "TYPE_CHECKING"
    stated = {
        alias.name: f"{node.module}".removeprefix("logcore.")
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert stated == logcore._MODULES
    assert set(stated) | {"__version__"} == set(logcore.__all__)


def test_every_public_name_has_a_docstring() -> None:
    for name in logcore.__all__:
        thing = getattr(logcore, name)
        if not inspect.isclass(thing) and not inspect.isfunction(thing):
            continue
        assert inspect.getdoc(thing), name
        methods = inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else []
        for method, function in methods:
            inherited = function.__module__.split(".")[0] != "logcore"
            assert method.startswith("_") or inherited or inspect.getdoc(function), f"{name}.{method}"


@pytest.mark.parametrize("name", ["Log", "LogDirectory", "open_log_directory", "open_partition", "open_segment"])
def test_what_readers_begin_with_has_an_example(name: str) -> None:
    assert "Example:\n" in (inspect.getdoc(getattr(logcore, name)) or "")


def test_the_page_lists_what_is_public() -> None:
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (listed,) = (part for part in section if part.startswith("What is public"))
    rows = [line.split("|")[1] for line in listed.splitlines() if line.startswith("| `")]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(names) == sorted(logcore.__all__)
