"""The time in which kernels are compiled does not count for the progress of the bytes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from logcore.cli import main
from logcore.cli.output.progress import ProgressLine
from logcore.columns.kernels import library


@pytest.mark.parametrize("command", ["verify", "recover", "reindex"])
def test_the_time_that_is_left_counts_from_the_end_of_compiling(
    command: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def noted(owner: type, name: str) -> None:
        original: Callable[..., object] = getattr(owner, name)

        def noting(self: object, *arguments: object) -> object:
            seen.append(name)
            return original(self, *arguments)

        monkeypatch.setattr(owner, name, noting)

    noted(library.Library, "_load")
    noted(ProgressLine, "begin")
    noted(ProgressLine, "show")
    nothing_is_loaded = library.Library()
    monkeypatch.setattr(library, "_tried_once", lambda: nothing_is_loaded)
    out = [] if command == "verify" else ["--out", str(tmp_path / "out")]
    main.main([command, str(root), *out])
    before = seen[: seen.index("show")]
    assert before[-1] == "begin", seen
    assert "_load" not in seen[len(before) :]
    assert "_load" in before
