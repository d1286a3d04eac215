"""Rules that hold for every module, whoever writes the next one: read from the syntax trees, not from running them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pipelines.run.outcome import WRITTEN
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS

PACKAGES = ("logcore", "spark_jobs", "pipelines")
OPENS_A_FILE = {"open", "fdopen", "open_code", "mmap", "memmap"}
METHODS_THAT_OPEN = {"open", "read_bytes", "read_text", "write_bytes", "write_text"}
CLOCKS = {
    *(("time", name) for name in ("time", "time_ns", "localtime", "gmtime")),
    *(("datetime", name) for name in ("now", "utcnow", "today")),
    ("date", "today"),
}


def modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    for package in packages:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            yield str(path.relative_to(REPOSITORY)), _parsed(path)


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Trees of all modules are read once, and not kept for other tests of the process."""
    yield
    _parsed.cache_clear()


def test_pipelines_imports_itself_relatively_because_it_is_loaded_by_two_names() -> None:
    """It is installed as ``loglake``. An absolute import would find a package ``pipelines`` of somebody else."""
    found = [
        f"{path}:{node.lineno}"
        for path, tree in modules("pipelines", "loglake")
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and not node.level and str(node.module).partition(".")[0] == "pipelines")
        or (isinstance(node, ast.Import) and any(each.name.partition(".")[0] == "pipelines" for each in node.names))
    ]
    assert found == []


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str | None, str]]:
    """Every call as (node, name before the last dot, last name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node, None, node.func.id
            elif isinstance(node.func, ast.Attribute):
                owner = node.func.value
                name = (
                    owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else "?"
                )
                yield node, name, node.func.attr


def opens_files(tree: ast.AST) -> list[int]:
    """Lines that open, read or write a file by any of Python's usual ways; the null device is none."""
    lines = []
    for node, owner, name in calls(tree):
        if (
            (owner in (None, "os", "io", "mmap", "np", "numpy") and name in OPENS_A_FILE)
            or (owner is not None and name in METHODS_THAT_OPEN)
        ) and not (node.args and ast.unparse(node.args[0]) == "os.devnull"):
            lines.append(node.lineno)
    return lines


def imported_when_loaded(tree: ast.Module) -> set[str]:
    """Top-level packages that importing the module imports: not those inside functions or for type checkers only."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


def test_only_storage_opens_files_in_logcore():
    offenders = {
        name: lines
        for name, tree in modules("logcore")
        if not name.startswith("logcore/storage/") and (lines := opens_files(tree))
    }
    assert offenders == {}


@pytest.mark.parametrize(
    "code",
    [
        "open('x')",
        "os.open(p, 0)",
        "Path(p).read_bytes()",
        "path.open()",
        "mmap.mmap(f, 0)",
        "io.open(p)",
        "p.write_text('')",
    ],
)
def test_an_open_in_any_dress_is_seen(code):
    assert opens_files(ast.parse(code)) == [1]


def test_only_the_session_module_builds_a_spark_session():
    builders = {
        name
        for name, tree in modules(*PACKAGES)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and (
            node.attr in ("getOrCreate", "newSession")
            or (node.attr == "builder" and ast.unparse(node) == "SparkSession.builder")
        )
    }
    assert builders == {"spark_jobs/engine/session.py"}


def test_loading_a_module_imports_no_engine():
    heavy = {"pyspark", "delta", "great_expectations", "py4j"}
    offenders = {name: found for name, tree in modules(*PACKAGES) if (found := imported_when_loaded(tree) & heavy)}
    # Spark loads its data source itself.
    assert {name for name in offenders if not name.startswith("spark_jobs/data_source/")} == set()


def test_what_bytes_mean_does_not_depend_on_the_clock():
    """``as_of_ms`` is an argument: a rerun must be able to give the same answer."""
    offenders = {
        name: lines
        for name, tree in modules("logcore", "spark_jobs")
        if (lines := [node.lineno for node, owner, called in calls(tree) if (owner, called) in CLOCKS])
    }
    # A command may default to now. One place reads the clock and passes the time on. A commit that removes files says
    # when it was made, as Delta's own do: other tools count from there how long readers may still use them.
    assert set(offenders) <= {"logcore/cli/main.py", "spark_jobs/lake/delta/commits.py"}
    assert all(len(lines) == 1 for lines in offenders.values())


def test_every_module_says_what_it_is_for():
    silent = [name for name, tree in modules(*PACKAGES) if not ast.get_docstring(tree)]
    assert silent == []


def test_no_room_without_a_name():
    vague = re.compile(r"(^|/)(utils?|helpers?|common|misc)(\.py$|/)")
    assert [name for name, _ in modules(*PACKAGES) if vague.search(name)] == []


def fresh_python(code: str) -> str:
    """Output of a new interpreter in the repository's top folder, site packages and all."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("logcore", ["pyarrow", "numpy", "pandas", "zstandard", "lz4", "snappy", "crc32c", "deltalake"]),
        ("spark_jobs.launch", ["pyspark", "delta", "great_expectations", "dagster"]),
        ("spark_jobs.engine.session", ["pyspark", "py4j", "dagster"]),
        ("pipelines.definitions", ["pyspark", "delta", "great_expectations"]),
    ],
)
def test_an_import_brings_no_more_than_it_needs(module, absent):
    loaded = fresh_python(f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})").split()
    assert set(loaded) & set(absent) == set()


def test_layers_hold():
    """The contracts of pyproject.toml, as `make lint` checks them."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for name, tree in modules(*PACKAGES):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    assert len(places) > 300
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_modules_import_each_other_in_no_circle() -> None:
    """Imports inside of functions count, those for the type checker alone do not."""
    known = {_module_name(name): name for name, _ in modules(*PACKAGES)}
    imports = {_module_name(name): _imported(tree) & set(known) for name, tree in modules(*PACKAGES)}
    left = {name: used - {name} for name, used in imports.items()}
    while free := [name for name, used in left.items() if not used & set(left)]:
        for name in free:
            del left[name]
    assert sorted(left) == [], "these, or those that they lead to, are in a circle"


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(tree: ast.Module) -> set[str]:
    """Names of modules, and names that may be modules."""
    only_typed = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.dump(branch.test)
        for node in ast.walk(branch)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in only_typed:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside | {node.module}
    return found


PRIVATE_OF_DAGSTER = re.compile(
    r"\bdagster\._|\bdagster_\w+\._|\b(event_log_storage|run_storage|handle_new_event|EventLogEntry)\b|method-assign"
)


def test_the_product_uses_dagster_through_its_public_names_only() -> None:
    found = {
        f"{path.relative_to(REPOSITORY)}: {line.strip()}"
        for package in PACKAGES
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        for line in path.read_text().splitlines()
        if PRIVATE_OF_DAGSTER.search(line)
    }
    assert found == set()


PRIVATE_OF_SPARK_AND_DELTA = re.compile(
    r"\b(pyspark|deltalake)\.([a-z_.]+\.)?_|\bSparkContext\._|\._(jvm|jsc|jdf|jsparkSession|gateway|sc)\b"
)
WITHOUT_A_PUBLIC_NAME = {
    "spark_jobs/engine/class_archive.py": "SparkContext._gateway",  # how Spark's JVM ended
    "spark_jobs/engine/session.py": "SparkContext._ensure_initialized",  # the JVM, before there is a context
}
"""The private names of PySpark that the product uses, by module."""


def test_the_product_uses_two_private_names_of_spark_and_none_of_delta() -> None:
    found = [
        (str(path.relative_to(REPOSITORY)), line.strip())
        for package in PACKAGES
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        for line in path.read_text().splitlines()
        if PRIVATE_OF_SPARK_AND_DELTA.search(line)
    ]
    assert [path for path, _ in found] == [*WITHOUT_A_PUBLIC_NAME]
    assert all(WITHOUT_A_PUBLIC_NAME[path] in line for path, line in found)


@pytest.mark.parametrize(
    "line",
    [
        "from pyspark.sql._typing import ColumnOrName",
        "import deltalake._internal",
        "spark.sparkContext._jvm.java.lang.System.gc()",
        "frame._jdf.queryExecution()",
    ],
)
def test_a_private_name_of_spark_or_delta_is_found(line: str) -> None:
    assert PRIVATE_OF_SPARK_AND_DELTA.search(line)


@pytest.mark.parametrize(
    "line",
    [
        "from dagster._core.events import DagsterEvent",
        "import dagster._daemon",
        "    instance.event_log_storage.get_asset_check_state([])",
        "    storage.store_event = store  # type: ignore[method-assign]",
    ],
)
def test_a_private_name_of_dagster_is_found(line: str) -> None:
    assert PRIVATE_OF_DAGSTER.search(line)


@pytest.mark.parametrize(("job", "figure"), WRITTEN)
def test_a_figure_that_a_run_says_is_one_of_the_report_of_its_job(job: str, figure: str) -> None:
    """Otherwise the run would say nothing of this work."""
    sources = [path.read_text() for path in sorted((REPOSITORY / "spark_jobs" / job).rglob("*.py"))]
    assert any(f'"{figure}": ' in source for source in sources)
