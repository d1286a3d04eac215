"""The image, built once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.deploy import image


@pytest.fixture(scope="session")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a container of the image, for `buildah run`."""
    image.need_tools()
    image.build(tmp_path_factory.mktemp("image"))
    done = subprocess.run(["buildah", "from", image.IMAGE], capture_output=True, text=True, check=True)
    name = done.stdout.strip()
    yield name
    image.end_all(name)
    subprocess.run(["buildah", "rm", name], capture_output=True, check=False)
