"""Which engine it is: the best there is, or the one that is named, and nothing else."""

from __future__ import annotations

import pytest

from logcore.columns.engines import Engine, available, decode_segment, default_engine, new_cleaner
from logcore.columns.kernels.library import KernelsUnavailable
from logcore.columns.wanted import Place
from logcore.logs.compaction.cleaner import PlainCleaner
from tests import handmade

PLACE = Place("orders", 3, "abc.0", "seg")


@pytest.mark.parametrize("engine", list(Engine))
def test_the_environment_names_the_engine(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    assert default_engine() is engine
    monkeypatch.delenv("LOGLAKE_ENGINE")
    assert default_engine() is available()[0]
    monkeypatch.setenv("LOGLAKE_ENGINE", "abacus")
    with pytest.raises(ValueError, match="abacus"):
        default_engine()


def test_asking_for_kernels_where_there_are_none_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from logcore.columns import groups

    def missing() -> None:
        raise KernelsUnavailable("no compiler")

    batch = handmade.simple_batch(0, [(b"k", b"v")])
    monkeypatch.setattr(groups, "library", missing)
    with pytest.raises(KernelsUnavailable, match="no compiler"):
        list(decode_segment(batch, place=PLACE, base_offset=0, sealed=True, engine=Engine.KERNELS))


def test_the_kernels_clean_where_they_work_and_the_plain_code_for_the_other_engines() -> None:
    assert isinstance(new_cleaner(Engine.REFERENCE), PlainCleaner)
    assert isinstance(new_cleaner(Engine.LOCKSTEP), PlainCleaner)
    if Engine.KERNELS in available():
        assert type(new_cleaner()).__name__ == "CompiledCleaner"
    with pytest.raises(ValueError, match="Engine"):
        new_cleaner("fast")


def test_which_cleaner_is_meant_can_be_named_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    assert isinstance(new_cleaner(), PlainCleaner)
