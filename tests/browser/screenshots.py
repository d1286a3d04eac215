"""The pictures of Dagster's pages in the documentation: ``python -m tests.browser.screenshots``.

They show the lakes of `loglake demo` in a home of their own. Look at each picture before you commit it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

from tests.browser.browsing import CHROMIUM, WAIT_MS, open_browser
from tests.pages import open_pages

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "docs" / "pictures"
LARGEST = 150_000
"""Bytes of a picture at most."""


def lineage(page: Page) -> None:
    """The journey of the data, with a red step."""
    page.goto("/locations/loglake/asset-groups/damaged/lineage")
    page.get_by_text("offset_ledger", exact=True).first.wait_for()


def red_check(page: Page) -> None:
    """Where the damage is, and what to do."""
    page.goto("/assets/damaged/validated_segments?view=checks&checkDetail=no_damage")
    page.get_by_text("what to do").first.wait_for()


def damaged_offsets(page: Page) -> None:
    """The strip of a topic partition along its offsets."""
    page.goto("/assets/damaged/validated_segments?view=partitions&partition=d-flip-crc-0")
    page.get_by_text("[Show Markdown]").first.click()
    page.locator("img[src^='data:image/svg+xml']").first.wait_for()


SHOTS: dict[str, Callable[[Page], None]] = {
    "lineage": lineage,
    "red-check": red_check,
    "damaged-offsets": damaged_offsets,
}


def main() -> int:
    """Write all pictures; 1 if one is too large, 69 if there is no browser."""
    if shutil.which(CHROMIUM) is None:
        print(f"there is no {CHROMIUM} on this machine; make browser-setup installs it", file=sys.stderr)
        return 69
    with tempfile.TemporaryDirectory(prefix="loglake-") as folder:
        home = Path(folder, "home")
        ordinary = Path(os.environ.get("LOGLAKE_HOME", REPOSITORY / ".loglake")).absolute()
        os.environ.update({"LOGLAKE_HOME": str(home), "LOGLAKE_JARS_DIR": str(ordinary / "jars")})
        subprocess.run([sys.executable, "-m", "logcore.cli.main", "demo"], cwd=REPOSITORY, check=True)
        with open_pages(home, Path(folder)) as pages, open_browser() as browser:
            window = browser.new_context(
                base_url=pages.address, viewport={"width": 1280, "height": 840}, timezone_id="UTC", locale="en-US"
            )
            page = window.new_page()
            page.set_default_timeout(WAIT_MS)
            for name, show in SHOTS.items():
                show(page)
                page.wait_for_load_state("networkidle")
                page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
    sizes = {path.name: path.stat().st_size for path in sorted(PICTURES.glob("*.png"))}
    print("\n".join(f"{size:>9,} bytes  {name}" for name, size in sizes.items()))
    return int(max(sizes.values()) > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
