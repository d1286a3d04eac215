"""What a browser leaves in the process of the tests."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from tests.browser import conftest
from tests.browser.browsing import CHROMIUM, open_browser


def test_a_closed_browser_leaves_no_event_loop_in_the_thread_of_the_tests() -> None:
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"there is no {CHROMIUM} on this machine; make browser-setup installs it")
    with open_browser():
        assert asyncio.get_running_loop().is_running()
    assert asyncio.run(asyncio.sleep(0, "ended")) == "ended"


@pytest.mark.parametrize("name", ["browser", "pages", "place"])
def test_no_fixture_of_a_browser_outlives_its_module(name: str) -> None:
    assert getattr(conftest, name)._fixture_function_marker.scope == "module"
