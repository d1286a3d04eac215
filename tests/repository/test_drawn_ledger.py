"""The picture in the documentation is what `loglake ledger --svg` draws of a sample."""

from __future__ import annotations

import tarfile
from pathlib import Path

from logcore.cli.main import main
from tests.conftest import REPOSITORY

TOPICS = ("d-flip-crc", "d-seg-gone", "d-cut-half", "d-none")


def test_the_picture_of_the_documentation_is_what_the_command_draws(tmp_path: Path) -> None:
    with tarfile.open(REPOSITORY / "samples" / "damaged.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    chosen = [word for topic in TOPICS for word in ("--topic", topic)]

    assert main(["ledger", str(tmp_path / "logdir"), *chosen, "--svg", str(tmp_path / "drawn.svg")]) == 2

    drawn, shown = (tmp_path / "drawn.svg").read_text(), (REPOSITORY / "docs" / "ledger.svg").read_text()
    assert drawn == shown, "Draw it again with this command, look at it, and commit it."
