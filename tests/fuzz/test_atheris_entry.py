"""The entry that atheris calls does what it says, with or without atheris."""

from pathlib import Path

import pytest

from tests.fuzz import atheris_entry
from tests.fuzz.atheris_entry import REPAIRED, SEALED, fill, repaired_segment, try_one
from tests.fuzz.canonical import CANONICAL
from tests.fuzz.mutator import mutant


def test_every_input_of_the_first_corpus_passes(tmp_path: Path) -> None:
    fill(tmp_path)
    inputs = [path.read_bytes() for path in tmp_path.iterdir()]
    assert len(inputs) == 2 * (len(CANONICAL) - 1)
    for data in inputs:
        try_one(data)


def test_a_corpus_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"x")
    fill(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_repairing_makes_of_a_changed_batch_one_whose_checksum_is_right() -> None:
    for batch in CANONICAL:
        assert repaired_segment(batch.data) == batch.data
        wrong = batch.data[:17] + bytes([batch.data[17] ^ 0xFF]) + batch.data[18:]
        assert (repaired_segment(wrong) == batch.data) == (batch.magic == 2)
        assert repaired_segment(wrong) != wrong


@pytest.mark.parametrize("flags", [0, SEALED, REPAIRED, SEALED | REPAIRED])
def test_any_bytes_are_an_input(flags: int) -> None:
    try_one(b"")
    for number in range(100):
        data = mutant(3, number).data
        try_one(bytes([flags]) + data + data[: number % 40])


def test_an_engine_that_differs_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fuzz import engines_compared

    monkeypatch.setattr(engines_compared, "equal", lambda one, other: False)
    with pytest.raises(AssertionError, match="differs from the reference"):
        try_one(bytes([SEALED]) + CANONICAL[0].data)


def test_without_atheris_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "atheris", None)
    assert atheris_entry.main([]) == 3
    assert "pip install atheris" in capsys.readouterr().err
