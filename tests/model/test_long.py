"""The long campaign ends well where all is well, and says which history is wrong."""

import pytest

from tests.model import long
from tests.model.histories import Violated


def test_a_small_campaign_says_how_many_histories_it_took(capsys: pytest.CaptureFixture[str]):
    assert long.main(["--histories", "20", "--length", "2"]) == 0
    assert "20 random histories" in capsys.readouterr().out


def test_processes_share_the_random_ones(capsys: pytest.CaptureFixture[str]):
    assert long.main(["--histories", "150", "--length", "0", "--processes", "2"]) == 0
    assert "150 random histories" in capsys.readouterr().out


def test_a_history_that_is_wrong_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def wrong(*_: object) -> None:
        raise Violated("Pa Da K: I5")

    monkeypatch.setattr(long, "run", wrong)
    assert long.main(["--histories", "1", "--length", "1"]) == 1
    assert "Pa Da K: I5" in capsys.readouterr().out
