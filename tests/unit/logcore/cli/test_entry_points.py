"""What other packages add is found by their metadata, and compared with what is installed before it is imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from logcore.cli import entry_points
from logcore.cli.main import main
from logcore.errors import LogError

Captured = pytest.CaptureFixture[str]

METADATA = """Metadata-Version: 2.4
Name: added
Version: 1.0
Requires-Dist: not-there-plainly
Provides-Extra: lake
Requires-Dist: PyArrow>=1; extra == "lake"
Requires-Dist: python_snappy>=0.1; extra == 'lake'
Requires-Dist: not-there[some]<2,>=1; extra == 'lake'
Requires-Dist: not.there-either; python_version >= "3" and extra == 'lake'
Provides-Extra: other
Requires-Dist: not-wanted; extra == 'other'
"""
COMPLETE = "Metadata-Version: 2.4\nName: added\nVersion: 1.0\nRequires-Dist: pyarrow; extra == 'lake'\n"
ENTRY_POINTS = """[loglake.commands]
added = added_module:command
[loglake.snappy_java]
first = added_module_that_is_missing:load
second = added_module:nothing
third = added_module:load
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of modules, with a distribution that has all that it needs, but for its module."""
    folder = tmp_path / "added-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(COMPLETE)
    (folder / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def without_packages(site: Path) -> None:
    (site / "added-1.0.dist-info" / "METADATA").write_text(METADATA)


def with_module(site: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    (site / "added_module.py").write_text(code)
    monkeypatch.delitem(sys.modules, "added_module", raising=False)


def test_packages_of_the_extra_that_are_not_installed_are_missing(site: Path) -> None:
    point = entry_points.of_group(entry_points.COMMANDS)["added"]
    assert entry_points.missing_packages(point) == []
    without_packages(site)
    point = entry_points.of_group(entry_points.COMMANDS)["added"]
    assert entry_points.missing_packages(point) == ["not-there", "not.there-either"]


def test_a_command_is_listed_where_its_packages_are_installed(site: Path, capsys: Captured) -> None:
    assert main(["--help"]) == 0
    help_text = capsys.readouterr().out
    assert "  added " in help_text
    assert "extra" not in help_text
    without_packages(site)
    assert main(["--help"]) == 0
    help_text = capsys.readouterr().out
    assert "  added " not in help_text
    assert "Commands for lakes come with the extra `lake`" in " ".join(help_text.split())


def test_a_command_that_lacks_packages_is_refused_before_anything_is_imported(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    with_module(site, monkeypatch, "raise AssertionError")
    without_packages(site)
    assert main(["added"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "error: `loglake added` needs packages that are not installed: not-there, not.there-either. Install the wheel "
        "with its extra, for instance: pip install './loglake-0.1.0-py3-none-any.whl[lake]'. In a clone of the "
        "repository, run `make setup`.\n"
    )
    assert "added_module" not in sys.modules


@pytest.mark.usefixtures("site")
def test_an_import_that_fails_is_named() -> None:
    point = entry_points.of_group(entry_points.COMMANDS)["added"]
    with pytest.raises(LogError, match="It needs added_module, which cannot be imported here"):
        entry_points.load(point, "It")


def test_snappy_java_comes_from_the_first_package_that_has_it(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_module(site, monkeypatch, "def nothing():\n    return None\n\ndef load():\n    return 'the library'\n")
    found = entry_points.of_group(entry_points.SNAPPY_JAVA)
    for names, library in ((("first", "second"), None), (("first", "second", "third"), "the library"), ((), None)):
        these = {name: found[name] for name in names}
        monkeypatch.setattr(entry_points, "of_group", lambda _, these=these: these)
        assert entry_points.load_snappy_java() == library
