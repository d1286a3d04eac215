"""`loglake status` about what the operator's home has: registered lakes, policies, and what was found."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.logs.model.findings import found
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup import registry
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.lake.view.verified_damage import FOLDER, keep_verified_damage
from spark_jobs.placed_finding import PlacedFinding
from tests.in_process import without_spark
from tests.unit.pipelines.command.asked_status import Captured, Status

pytestmark = pytest.mark.usefixtures("history")


def test_a_lake_that_is_not_registered_says_that_nothing_starts_by_itself_and_how_to_change_that(
    lakes: Path, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, sources = lakes / "sound", f"{shlex.quote(str(read_registered(str(lakes / 'sound')).intakes[0].sources[0]))}"
    monkeypatch.setenv("LOGLAKE_HOME", str(lakes / "other-home"))
    code, said = status(lake)
    assert (code, "next " in said) == (0, False), said
    command = f"loglake run {sources} --lake {lake}"
    line = f"  the lake is not registered in the home {lakes / 'other-home'}: nothing starts by itself; `{command}`\n"
    assert line in said
    with without_spark():
        assert main(shlex.split(command)[1:]) == 0
    code, said = status(lake)
    assert (code, said.count("next ")) == (0, 3), said


@pytest.mark.parametrize("kept", ['{"/lake/a.log": []}', '{"/lake/a.log": ["rule", null, 1]}', "[]", "no JSON"])
def test_a_file_of_the_home_that_is_not_what_was_written_says_nothing(loaded: Path, status: Status, kept: str) -> None:
    assert main(["verify", str(loaded)]) == 0
    keep_verified_damage(
        str(loaded), [PlacedFinding(found("archive-file-changed", "", file=f"{loaded}/lake.json"))], is_whole=True
    )
    assert status(loaded)[0] == 2
    (of_lake,) = (Path(registry.home()) / FOLDER).iterdir()
    of_lake.write_text(kept)
    assert status(loaded)[0] == 0


def test_registered_policies_that_are_gone_are_an_error_with_advice_also_of_doctor(
    lakes: Path, status: Status, capsys: Captured
) -> None:
    lake = str(lakes / "sound")
    intake = Intake(registry.recall(lake).intakes[0].sources, policies=str(lakes / "policies.yaml"))
    registry.remember(lake, intake)
    assert status(lake)[0] == main(["doctor", "--lake", lake]) == 0
    (lakes / "policies.yaml").unlink()
    for named in ([lake], [lake, str(lakes / "damaged")]):
        code, said = status(*named)
        assert code == 3
        assert f"The policies {lakes / 'policies.yaml'} can't be read" in said
        assert "--policies FILE" in said
    assert main(["doctor", "--lake", lake]) == 3
    assert re.search(r"failed +policies +The policies ", capsys.readouterr().out)


def test_a_lake_without_its_policies_is_not_in_order(lakes: Path, status: Status) -> None:
    (lakes / "sound" / "topic_tables.json").write_text('{"version": 1, "tables": ["decoded/orders"]}')
    code, said = status(lakes / "sound")
    assert code == 3
    assert "no policies file is registered" in said
