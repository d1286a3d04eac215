"""Servers of forks and scenes, made once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.forks import Forks
from tests.crash.scene import Scene, grow, make_scene


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Forks]]:
    """Two servers: as many runs are under way at a time."""
    servers = [Forks(tmp_path_factory.mktemp("forks")) for _ in range(2)]
    yield servers
    for server in servers:
        server.close()


@pytest.fixture(scope="session", params=["first", "grown"])
def scene(request: pytest.FixtureRequest, forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A lake's first round, and one over a source that has grown meanwhile."""
    name = request.param
    return make_scene(name, forks, tmp_path_factory.mktemp(name), grow if name == "grown" else None)
