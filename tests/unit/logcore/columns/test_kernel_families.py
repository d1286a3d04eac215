"""Families of kernels: each compiled and cached alone, when it is needed, under a name that holds all it depends on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from logcore.columns.kernels import families
from logcore.columns.kernels import library as loading
from logcore.columns.kernels.cleaning.cleaning_frames import MapFrame
from logcore.columns.kernels.families import FAMILIES, PACKAGE, SURVIVING, WALK, Family, Kernel, Work
from logcore.columns.kernels.library import KernelsUnavailable, Library, is_available, is_chosen
from logcore.columns.kernels.machine.processor import Processor, this_processor
from logcore.columns.kernels.recovering.recovery_frame import RecoveryFrame
from logcore.storage.machine.module_sources import ModuleSources
from tests import handmade
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS

KERNELS = Path("logcore/columns/kernels")
MODULES = sorted({family.module for family in FAMILIES})
by_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def ran(code: str, *arguments: str, path: Path = REPOSITORY, **environment: str) -> SimpleNamespace:
    """What a new interpreter printed as JSON, and what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(answer=json.loads(done.stdout.splitlines()[-1]), stderr=done.stderr)


@by_family
def test_a_familys_module_has_its_kernels(family: Family) -> None:
    pytest.importorskip("numba", reason="there is no Numba for this machine, so there are no kernels")
    given = [kernel.name for each in FAMILIES if each.module == family.module for kernel in each.kernels]
    module = __import__(f"{PACKAGE}.{family.module}", fromlist=["kernels"])
    for has_crc32c in (True, False):
        assert sorted(module.kernels(has_crc32c)) == sorted(given)


def test_names_are_unique() -> None:
    names = [family.name for family in FAMILIES]
    kernels = [kernel.name for family in FAMILIES for kernel in family.kernels]
    assert len(set(names)) == len(names)
    assert len(set(kernels)) == len(kernels)
    assert {each for each in vars(families).values() if isinstance(each, Family)} == set(FAMILIES)


@pytest.mark.long
@pytest.mark.parametrize("module", [*MODULES, "building"])
def test_what_a_module_is_compiled_from_holds_all_that_it_imports(module: str) -> None:
    """Python itself says what is imported."""
    pytest.importorskip("numba", reason="there is no Numba for this machine, so there are no kernels")
    code = f"""
import importlib, json, sys
importlib.import_module("{PACKAGE}.{module}")
names = [name for name in sys.modules if name.startswith("{PACKAGE}.")]
print(json.dumps([name for name in names if not sys.modules[name].__file__.endswith("__init__.py")]))
"""
    imported = {name.removeprefix(f"{PACKAGE}.") for name in ran(code).answer}
    assert module in imported
    assert imported <= set(ModuleSources(PACKAGE).closure([module]))


def test_kernels_are_compiled_from_nothing_outside_of_their_package() -> None:
    """A digest of sources holds the package alone. What comes from elsewhere has to get into the names by its value."""
    outside = {}
    for path in sorted((REPOSITORY / KERNELS).rglob("*.py")):
        lines = path.read_text().splitlines()
        outside[path.stem] = [
            line for line in lines if "import" in line.split() and " logcore." in line and f" {PACKAGE}" not in line
        ]
    del outside["library"]  # not compiled
    assert {name for name, lines in outside.items() if lines} <= {"codec_numbers"}


NAMED = """
import json
from logcore.columns.kernels.families import FAMILIES
from logcore.columns.kernels.library import Library
library = Library()
print(json.dumps({family.name: library.cache_name(family) for family in FAMILIES}))
"""
EVERY_NAME = {family.name for family in FAMILIES}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copied")
    shutil.copytree(REPOSITORY / "logcore", folder / "logcore", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        ("decoding/lines.py", {"lines"}),
        ("decoding/characters.py", {"lines", "text_lines", "commit_lines"}),
        ("decoding/records.py", {"inspect", "emit"}),
        ("cleaning/cleaning.py", {"rewrite"}),
        ("cleaning/cleaning_frames.py", {"keys", "newest", "surviving", "rewrite"}),
        ("recovering/recovery_frame.py", {"recover"}),
        ("recovering/event_row.py", {"recover"}),
        ("decoding/decoding_frames.py", {"lines", "text_lines", "commit_lines"}),
        ("machine/hashing.py", {"keys"}),
        ("machine/checksums.py", {"walk", "messages", "rewrite", "recover"}),
        (
            "machine/values.py",
            {
                "inspect",
                "emit",
                "messages",
                "lines",
                "text_lines",
                "commit_lines",
                "keys",
                "surviving",
                "rewrite",
                "json_rows",
                "avro_rows",
                "protobuf_rows",
            },
        ),
        ("machine/intrinsics.py", EVERY_NAME),
        ("machine/functions.py", EVERY_NAME),
        ("call_frames.py", EVERY_NAME),
        ("batch_row.py", EVERY_NAME - {"newest", "recover", "gather"}),
        ("building.py", EVERY_NAME),
        ("library.py", set()),
        ("families.py", set()),
        ("machine/tables.py", set()),
    ],
)
def test_an_edit_changes_the_names_of_the_families_that_depend_on_it(
    copied: Path, edited: str, expected: set[str]
) -> None:
    before = ran(NAMED, path=copied).answer
    path = copied / KERNELS / edited
    content = path.read_text()
    path.write_text(content + "\nADDED = 1\n")
    try:
        after = ran(NAMED, path=copied).answer
    finally:
        path.write_text(content)
    assert {name for name in EVERY_NAME if after[name] != before[name]} == expected


@pytest.mark.parametrize(
    ("edited", "old", "new", "expected"),
    [
        (
            "decoding/decoding_frames.py",
            "    previous: int\n",
            "    added: int\n    previous: int\n",
            {"inspect", "emit", "messages", "lines", "text_lines", "commit_lines"},
        ),
        (
            "decoding/decoding_frames.py",
            "    needed: int\n",
            "    needed: Address\n",
            {"inflate", "deflate", "lines", "text_lines", "commit_lines"},
        ),
    ],
)
def test_an_edit_of_a_frame_changes_the_names_of_the_families_with_a_kernel_that_takes_it(
    copied: Path, edited: str, old: str, new: str, expected: set[str]
) -> None:
    before = ran(NAMED, path=copied).answer
    path = copied / KERNELS / edited
    content = path.read_text()
    assert content.count(old) == 1
    path.write_text(content.replace(old, new))
    try:
        after = ran(NAMED, path=copied).answer
    finally:
        path.write_text(content)
    assert {name for name in EVERY_NAME if after[name] != before[name]} == expected


def test_a_copy_of_the_same_sources_has_the_same_names(copied: Path) -> None:
    assert ran(NAMED, path=copied).answer == ran(NAMED).answer


def test_the_name_changes_with_processor_and_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite

    triple = this_processor().triple
    names = [Library().cache_name(WALK)]
    assert Library().cache_name(WALK) == names[0]
    for other in (
        Processor(triple, "another", "", has_crc32c=False),
        Processor(triple, "another", "", has_crc32c=True),
        Processor(triple, "another", "+crc32", has_crc32c=True),
    ):
        names += [Library(other).cache_name(WALK)]
    monkeypatch.setattr(llvmlite, "__version__", "0.0")
    names.append(Library().cache_name(WALK))
    monkeypatch.setattr(loading, "installed_version", lambda package: b"another")
    names.append(Library().cache_name(WALK))
    monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-300")
    names.append(Library().cache_name(WALK))
    names.append(Library().cache_name(replace(WALK, kernels=WALK.kernels[:1])))
    assert len(set(names)) == len(names)


# What is compiled, and when.


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Names of families as they are compiled, into an empty cache; nothing is compiled in truth."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("logcore.storage.machine.object_code._shared_folders", list)
    monkeypatch.delenv("LOGLAKE_ENGINE", raising=False)
    asked: list[str] = []

    def compile_nothing(family: Family, processor: Processor) -> bytes:
        asked.append(family.name)
        raise KernelsUnavailable(f"no compiler for {family.name}")

    monkeypatch.setattr(loading, "_compiled", compile_nothing)
    loading._tried_once.cache_clear()
    loading._warn.cache_clear()
    yield asked
    loading._tried_once.cache_clear()
    loading._warn.cache_clear()


def test_a_failing_family_is_reported_once_and_not_tried_again(
    compiled: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert not is_available(Work.RECOVER)
        assert not is_chosen(Work.RECOVER)
        with pytest.raises(KernelsUnavailable, match="no compiler for recover"):
            loading.library().call("recover", RecoveryFrame())
    assert compiled == ["recover"]
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert messages[0] == "compiling once for this machine and version, about 4 s: the kernels recover"
    assert "(no compiler for recover): the reference engine is used" in messages[1]


def test_code_that_lacks_a_kernel_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    library.load([SURVIVING])
    code = loading.find_object_code(library.cache_name(SURVIVING))
    assert code is not None
    monkeypatch.setattr(loading, "cached_object_code", lambda name, make: code)
    lacking = replace(SURVIVING, kernels=(*SURVIVING.kernels, Kernel("no_such_kernel", MapFrame)))
    with pytest.raises(KernelsUnavailable, match="no_such_kernel"):
        Library().load([lacking])


LOADED = """
import json, sys
from logcore.columns.kernels.families import SURVIVING
from logcore.columns.kernels.library import library
library().load([SURVIVING])
print(json.dumps({"numba": "numba" in sys.modules}))
"""


@pytest.mark.long
@pytest.mark.slow
def test_first_use_compiles_what_the_command_needs_and_says_so(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="there is no Numba for this machine, so there are no kernels")
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(handmade.simple_batch(0, [(b"k", b"v")]))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    code = """
import sys
import logcore.storage.machine.object_code as kept
kept._shared_folders = list  # what setup left in the environment
from logcore.cli.main import main
status = main(["reindex", sys.argv[1], "--out", sys.argv[2]])
print(f'{{"status": {status}}}')
"""
    home = {"LOGLAKE_HOME": str(tmp_path / "home")}
    done = [ran(code, str(directory), str(tmp_path / out), **home) for out in ("first", "second")]
    assert [each.answer for each in done] == [{"status": 0}, {"status": 0}]
    assert "compiling once for this machine and version, about 4 s: the kernels recover\n" in done[0].stderr
    assert "compiling" not in done[1].stderr
    kept = [path.name for path in (tmp_path / "home" / "kernels").iterdir() if path.suffix != ".lock"]
    families = {name.partition("-")[0] for name in kept}
    assert families == {"recover", "walk", "inflate", "deflate", "messages", "inspect"}  # it checks batches too


@pytest.mark.long
@pytest.mark.slow
def test_processes_at_once_and_a_damaged_file_end_with_the_same_code(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="there is no Numba for this machine, so there are no kernels")
    code = LOADED.replace(
        "import json, sys\n",
        ("import json, sys\nimport logcore.storage.machine.object_code as kept\nkept._shared_folders = list\n"),
    )
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "LOGLAKE_HOME": str(tmp_path / "home")}
    both = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = sorted(json.loads(process.communicate(timeout=WAIT_SECONDS)[0])["numba"] for process in both)
    assert answers == [False, True]  # one compiled, the other loaded
    (path,) = (each for each in (tmp_path / "home" / "kernels").iterdir() if each.suffix != ".lock")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    home = {"LOGLAKE_HOME": str(tmp_path / "home")}
    assert ran(code, **home).answer == {"numba": True}
    assert path.read_bytes() == whole
    assert ran(code, **home).answer == {"numba": False}
