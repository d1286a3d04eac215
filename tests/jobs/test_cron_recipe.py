"""The crontab in docs/operations.md: each of its commands does what the schedules of Dagster do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.broker_directory import LogDirectory

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_commands_of_the_crontab_run_in_a_shell(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
    [crontab] = re.findall(r"```crontab\n(.*?)```", page, re.DOTALL)
    lines = crontab.splitlines()
    source = LogDirectory(tmp_path / "kafka-logs")
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    (tmp_path / "log").mkdir()
    variables = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z_]+=", line))
    commands = [line.split(None, 5)[5].replace("\\%", "%") for line in lines if line[0] in "*0123456789"]
    assert (len(commands), variables.keys()) == (4, {"LOGLAKE_HOME", "LAKE"})
    environment = {**os.environ, "LOGLAKE_JOB_ENGINE": "local", "PYTHONPATH": str(REPOSITORY)}
    environment |= {name: value.replace("/var", str(tmp_path)) for name, value in variables.items()}
    loglake = f"{sys.executable} -m logcore.cli.main"
    for command in commands:
        command = command.replace("/var", str(tmp_path))
        command = command.replace("/opt/loglake/bin/loglake", loglake)
        done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True)
        log = (tmp_path / "log" / "loglake.log").read_text()
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (command, log)
    assert DeltaTable(f"{environment['LAKE']}/tables/records").to_pyarrow_table().num_rows == 10
    assert "maintenance:" in log
    assert "findings: 0 error" in log
