"""Unit tests are where their product is: who knows the folder of a module knows the folder of its tests."""

from __future__ import annotations

from tests.conftest import REPOSITORY

PACKAGES = ("logcore", "pipelines", "spark_jobs")


def _folders_of_unit_tests() -> list[str]:
    unit = REPOSITORY / "tests" / "unit"
    return sorted({path.parent.relative_to(unit).as_posix() for path in unit.rglob("test_*.py")})


def test_each_folder_of_unit_tests_names_a_folder_of_the_product() -> None:
    folders = _folders_of_unit_tests()
    assert {folder.partition("/")[0] for folder in folders} == set(PACKAGES)
    missing = [folder for folder in folders if not (REPOSITORY / folder).is_dir()]
    assert not missing, f"no folder of the product: {missing}"


def test_no_unit_test_starts_spark_dagster_or_kafka() -> None:
    slow = ("spark", "dagster", "kafka", "cluster", "object_store", "crash")
    marks = [f"pytest.mark.{name}" for name in slow]
    found = [
        str(path.relative_to(REPOSITORY))
        for path in sorted((REPOSITORY / "tests" / "unit").rglob("*.py"))
        if any(mark in path.read_text() for mark in marks)
    ]
    assert not found, f"belongs into another folder of tests: {found}"
