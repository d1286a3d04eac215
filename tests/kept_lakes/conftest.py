"""The command server of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands import Commands


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """A server of commands."""
    server = Commands(tmp_path_factory.mktemp("commands"))
    yield server
    server.close()
