"""Whole directories, damaged: `verify`, `recover --salvage` and `ledger` end soon, in little memory, and add up.

200 of them here; `python -m tests.fuzz.directories --cases 100000` in `make test-long`.
"""

import os
from pathlib import Path

import pytest

from tests.fuzz import directories
from tests.fuzz.directory_mutants import make

SEED = 20261123
CASES = 200


def tree(root: Path) -> dict[str, object]:
    """Every name with what it is: bytes, a link's target, or None."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = os.readlink(path).replace(str(root), "")
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def test_a_damaged_directory_is_a_function_of_seed_and_number(tmp_path: Path) -> None:
    for number in range(30):
        one, other = tmp_path / f"{number}a", tmp_path / f"{number}b"
        assert make(1, number, one) == make(1, number, other)
        assert tree(one) == tree(other)


@pytest.mark.long
def test_no_damaged_directory_makes_a_command_hang_or_take_much_or_contradict_itself() -> None:
    results = directories.run(SEED, CASES)
    assert results.wrong == []
    assert sum(results.codes.values()) == 3 * CASES
    assert {code.split()[1] for code in results.codes} == {"0", "1", "2", "3"}


def test_a_command_that_takes_too_long_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directories, "PROCESSOR_SECONDS", -1.0)
    monkeypatch.setattr(directories, "_LOOK_SECONDS", 0.0)
    results = directories.run(SEED, 1)
    assert len(results.wrong) == 1
    assert results.wrong[0].startswith(f"seed {SEED}, case 0, ")
    assert "processor time" in results.wrong[0]
