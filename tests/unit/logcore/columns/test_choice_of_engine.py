"""Which engine it is: the best there is, or the one that is named, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from logcore.columns.engines import Engine, available, decode_segment, default_engine, new_cleaner
from logcore.columns.kernels import library as loading
from logcore.columns.kernels.library import KernelsUnavailable, is_chosen
from logcore.columns.wanted import Place
from logcore.logs.compaction.cleaner import PlainCleaner
from tests import handmade

PLACE = Place("orders", 3, "abc.0", "seg")


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine on which LLVM does not load."""

    def missing() -> None:
        raise KernelsUnavailable("no LLVM")

    monkeypatch.setattr(loading, "library", missing)
    monkeypatch.delenv("LOGLAKE_ENGINE", raising=False)
    loading._warn.cache_clear()
    available.cache_clear()
    yield
    loading._warn.cache_clear()
    available.cache_clear()


@pytest.mark.parametrize("engine", list(Engine))
def test_the_environment_names_the_engine(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    assert default_engine() is engine
    monkeypatch.delenv("LOGLAKE_ENGINE")
    assert default_engine() is available()[0]
    monkeypatch.setenv("LOGLAKE_ENGINE", "abacus")
    with pytest.raises(ValueError, match="LOGLAKE_ENGINE is 'abacus'; it may be kernels or reference"):
        default_engine()


def test_without_kernels_the_reference_is_used_and_one_warning_reports_it(
    without_kernels: None, caplog: pytest.LogCaptureFixture
) -> None:
    assert available() == (Engine.REFERENCE,)
    assert default_engine() is Engine.REFERENCE
    assert isinstance(new_cleaner(), PlainCleaner)
    assert not is_chosen()
    assert [record.getMessage() for record in caplog.records] == [
        "The compiled engine is not available on this machine (no LLVM): the reference engine is used, "
        "50 to 300 times slower."
    ]


def test_a_reference_engine_that_is_chosen_by_name_is_not_reported(
    without_kernels: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    assert default_engine() is Engine.REFERENCE
    assert not is_chosen()
    assert caplog.records == []


def test_asking_for_kernels_where_there_are_none_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from logcore.columns.decoding import batch_table

    def missing() -> None:
        raise KernelsUnavailable("no compiler")

    batch = handmade.simple_batch(0, [(b"k", b"v")])
    monkeypatch.setattr(batch_table, "library", missing)
    with pytest.raises(KernelsUnavailable, match="no compiler"):
        list(decode_segment(batch, place=PLACE, base_offset=0, sealed=True, engine=Engine.KERNELS))


def test_the_kernels_clean_where_they_work_and_the_plain_code_for_the_reference() -> None:
    assert isinstance(new_cleaner(Engine.REFERENCE), PlainCleaner)
    if Engine.KERNELS in available():
        assert type(new_cleaner()).__name__ == "CompiledCleaner"
    with pytest.raises(ValueError, match="Engine"):
        new_cleaner("fast")


def test_which_cleaner_is_meant_can_be_named_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    assert isinstance(new_cleaner(), PlainCleaner)
