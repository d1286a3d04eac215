"""The programs of docs/spark.md run on the bundled samples and print what the page shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_loglake import DefaultSource
from spark_jobs.engine.session import get_session
from tests.conftest import REPOSITORY, Sample

pytestmark = [pytest.mark.spark, pytest.mark.long]

PAGE = REPOSITORY / "docs" / "spark.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```\n```text\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_programs_print_what_the_page_shows(
    tmp_path: Path, sample: Callable[[str], Sample], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ".loglake" / "samples"
    folder.mkdir(parents=True)
    for name in set(re.findall(r"\.loglake/samples/([^/\"]+)", PAGE.read_text())):
        (folder / name).symlink_to(sample(name).root)
    monkeypatch.chdir(tmp_path)
    spark = get_session()
    names: dict[str, Any] = {}
    try:
        for code, shown in PROGRAMS:
            exec(code.replace('".loglake', f'"{tmp_path}/.loglake'), names)
            assert capsys.readouterr().out.strip() == shown.strip()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
        spark.dataSource.register(DefaultSource)
    assert len(PROGRAMS) == PAGE.read_text().count("```python") == 2
