"""Headless Chromium of the machine, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, expect, sync_playwright

CHROMIUM = "chromium"
"""The program, as Debian names it."""

WAIT_MS = 60_000
"""So long a page may take to show what is expected; the machine may be busy."""

expect.set_options(timeout=WAIT_MS)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser that loads pages of this machine only; it is ended at the end."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which(CHROMIUM),
            # Its sandbox needs privileges that containers do not give. /dev/shm is small there.
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--no-proxy-server"],
        )
        try:
            yield browser
        finally:
            browser.close()
