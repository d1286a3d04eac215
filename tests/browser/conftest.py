"""One browser, and one set of Dagster's pages with real jobs, for all tests of a module.

They end with the module: while a browser of Playwright is open, its event loop runs in the thread of the tests, and
tests of other folders in the same process could start no loop of their own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from spark_jobs import launch
from spark_jobs.contracts import Intake
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.browser.browsing import CHROMIUM, open_browser
from tests.dagster.conftest import loglake
from tests.pages import Pages, open_pages

BUSY_LOGS = 3_000
"""So many that a run over them can be canceled in the middle."""


@dataclass
class Place:
    """A lake that a run of the command line has made, one that no run has made yet, and their home."""

    home: Path
    shop: Path
    busy: Path
    policies: Path
    """Of the lake ``busy``."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Two sound logs and one with damage in the offsets 5..10; and a second source with very many small logs."""
    folder = tmp_path_factory.mktemp("browser")
    place = Place(folder / "home", folder / "shop", folder / "busy", folder / "policies.yaml")
    source = LogDirectory(folder / "shop-logs")
    for number in range(2):
        source.partition(f"orders-{number}").append(12)
    payments = source.partition("payments-0", OTHER_TOPIC_ID)
    payments.append(15)
    segment = payments.segments()[0]
    whole = segment.read_bytes()
    segment.write_bytes(handmade.flip(whole, handmade.size_of(whole) + 80))
    source.high_watermarks(orders_0=12, orders_1=12, payments_0=15)
    done = loglake("run", source.path, "--lake", place.shop, LOGLAKE_HOME=str(place.home))
    assert done.returncode == 2, done.stderr  # it has found the damage

    many = LogDirectory(folder / "busy-logs")
    for number in range(BUSY_LOGS):
        many.partition(f"clicks-{number}").append(5)
    many.high_watermarks(**{f"clicks_{number}": 5 for number in range(BUSY_LOGS)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGLAKE_HOME", str(place.home))
        place.policies.write_text("lake: {ingest: every 365 d}")  # so that its schedule never starts a run here
        launch.register(str(place.busy), Intake((str(many.path),), policies=str(place.policies)))
    return place


@pytest.fixture(scope="module")
def pages(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """`loglake ui`: webserver, daemon and code server."""
    with open_pages(place.home, tmp_path_factory.mktemp("pages")) as pages:
        yield pages


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Headless Chromium."""
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"there is no {CHROMIUM} on this machine; make browser-setup installs it")
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, pages: Pages) -> Iterator[Page]:
    """A new page, as of a person who has never been here; addresses are below the webserver's."""
    with browser.new_context(
        base_url=pages.address, viewport={"width": 1400, "height": 900}, timezone_id="UTC", locale="en-US"
    ) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        yield page
