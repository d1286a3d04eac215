"""What `make mutants` tries: its modules and tests exist, and what is counted is what a test can notice."""

from __future__ import annotations

import tomllib

from tests.conftest import REPOSITORY
from tests.mutants import Equivalent, Mutant, Result, page


def test_the_modules_and_tests_of_mutants_exist() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["mutmut"]
    tests = [path for path in settings["pytest_add_cli_args_test_selection"] if path.startswith("tests/")]
    assert len(tests) >= 2
    assert [path for path in settings["only_mutate"] + tests if not list(REPOSITORY.glob(path))] == []


def test_mutants_that_mypy_refuses_and_equivalent_ones_are_not_counted() -> None:
    statuses = ("killed", "killed", "timeout", "survived", "survived", "no tests", "caught by type check")
    tried = [Mutant(f"logcore.logs.x_due__mutmut_{number}", status) for number, status in enumerate(statuses)]
    changes = {mutant: ("a < b", f"a <= b + {mutant.name[-1]}") for mutant in tried[3:6]}
    result = Result(tried, changes, (Equivalent("x_due", "a <= b + 3", "b is never equal"),))
    assert result.green == tried[4:6]
    assert (result.counted, result.share) == (5, 60.0)
    written = list(page(result, "command"))
    assert "| `logcore.logs` | 3 | 2 | 1 | 1 |" in written
    assert written[-1] == "- `logcore.logs.x_due__mutmut_3`: `a < b → a <= b + 3`: b is never equal"
