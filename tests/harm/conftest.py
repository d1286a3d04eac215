"""The command server and the lake that cases begin with, once a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands import Commands
from tests.harm.place import Broker, Original, Place


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """A server of commands."""
    server = Commands(tmp_path_factory.mktemp("commands"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def original(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Original:
    """Three sound logs, published by two runs. Shared: never write into it."""
    return Original.make(tmp_path_factory.mktemp("original"), commands)


@pytest.fixture
def place(original: Original, tmp_path: Path) -> Place:
    """A copy of the lake; the source is the original's and must not change."""
    return original.case(tmp_path / "place")[0]


@pytest.fixture
def growing(original: Original, tmp_path: Path) -> tuple[Place, Broker]:
    """A copy of the lake and of its source, which may grow."""
    return original.case(tmp_path / "place", own_source=True)


Make = Callable[[Path], Place]
