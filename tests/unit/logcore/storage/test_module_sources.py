"""A digest of modules and of what they import: it changes with each of these sources, and with nothing else."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from logcore.storage.machine.module_sources import ModuleSources, installed_version

SOURCES = {
    "__init__.py": "",
    "numbers.py": "ONE = 1\n",
    "lonely.py": "import os\nimport first_of_them_not\n",
    "plain.py": "from {package}.numbers import ONE\n",
    "deep/__init__.py": "TWO = 2\n",
    "deep/inner.py": "from {package} import numbers\n",
    "deep/other.py": (
        "from {package}.deep.inner import (\n    x,  # not y)\n    z,\n)\nimport {package}.lonely as l, json\n"
    ),
    "of_a_package.py": "def f():\n    from {package}.deep import (\n        inner,\n        TWO,\n    )\n",
}


def package(folder: Path, **changed: str | None) -> ModuleSources:
    """A package with these sources, some of them changed or left out."""
    for name, text in {**SOURCES, **changed}.items():
        if text is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(package=folder.name))
    return ModuleSources(folder.name)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("numbers", {"numbers"}),
        ("lonely", {"lonely"}),
        ("plain", {"numbers", "plain"}),
        ("deep.inner", {"", "deep.inner", "numbers"}),
        ("deep.other", {"", "deep.inner", "deep.other", "lonely", "numbers"}),
        ("of_a_package", {"", "deep", "deep.inner", "numbers", "of_a_package"}),
    ],
)
def test_imports_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, expected: set[str]) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert set(package(tmp_path / f"followed_from_{module.replace('.', '_')}").closure([module])) == expected


def test_the_digest_changes_with_the_sources_of_its_modules_and_with_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    changes = {
        "itself": {"plain.py": SOURCES["plain.py"] + "# more"},
        "what it imports": {"numbers.py": "ONE = 2\n"},
        "another module": {"lonely.py": "x = 1\n"},
        "a new module": {"new.py": "x = 1\n"},
        "no source": {"notes.txt": "x"},
        "nothing": {},
    }
    digests = {}
    for change, sources in changes.items():
        folder = tmp_path / change.replace(" ", "_") / "the_same_name"
        monkeypatch.syspath_prepend(str(folder.parent))
        digests[change] = package(folder, **sources).digest(["plain"])
        monkeypatch.delitem(sys.modules, "the_same_name")
    assert digests["nothing"] == digests["another module"] == digests["a new module"] == digests["no source"]
    assert len({digests["itself"], digests["what it imports"], digests["nothing"]}) == 3


def test_a_module_that_does_not_exist_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"lacks_one\.nowhere"):
        package(tmp_path / "lacks_one").digest(["nowhere"])


def test_the_digest_is_the_same_from_a_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "in" / "the_same_package"
    monkeypatch.syspath_prepend(str(folder.parent))
    plain = package(folder).digest(["deep.other"])
    with zipfile.ZipFile(tmp_path / "it.zip", "w") as archive:
        for path in sorted(folder.rglob("*.py")):
            archive.write(path, path.relative_to(folder.parent))
    monkeypatch.delitem(sys.modules, "the_same_package")
    monkeypatch.syspath_prepend(str(tmp_path / "it.zip"))
    assert ModuleSources("the_same_package").digest(["deep.other"]) == plain
    import the_same_package  # type: ignore[import-not-found]

    assert "it.zip" in the_same_package.__file__


def test_a_version_is_stated_without_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for version in (1, 2):
        folder = tmp_path / f"stated_{version}"
        folder.mkdir()
        (folder / "__init__.py").write_text("raise ImportError")
        (folder / "_version.py").write_text(f"version = {version}")
    assert installed_version("stated_1") == b"version = 1"
    assert installed_version("stated_2") == b"version = 2"
    assert installed_version("not_installed_at_all") == b""
    assert installed_version("pytest")
