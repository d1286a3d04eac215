"""What a person does on Dagster's pages, in a real browser, with a real webserver, daemon and jobs.

The tests are one story of one home, in its order: the command line has run before the browser opens.
"""

from __future__ import annotations

import base64
import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Place
from tests.dagster.conftest import loglake
from tests.pages import BACKFILL, Pages, wait_for

pytestmark = [pytest.mark.dagster, pytest.mark.browser]

LAUNCH = """mutation($p: ExecutionParams!) { launchRun(executionParams: $p) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
BACKFILLS = "query { partitionBackfillsOrError { ... on PartitionBackfills { results { id } } } }"
STATUS = "query($i: ID!) { runOrError(runId: $i) { ... on Run { status } } }"
RUNNING = """query { runsOrError(filter: {statuses: [QUEUED, NOT_STARTED, STARTING, STARTED, CANCELING]}) {
  ... on Runs { results { id } } } }"""
MATERIALIZED = """query($k: AssetKeyInput!) { assetNodeOrError(assetKey: $k) { ... on AssetNode {
  assetMaterializations(limit: 50) { partition runOrError { ... on Run { id jobName } } } } } }"""


def materializations(pages: Pages, asset: str) -> list[str]:
    """Partition keys of the materializations of an asset of the shop, the newest first."""
    node = pages.ask(MATERIALIZED, k={"path": ["shop", asset]})["assetNodeOrError"]
    return [each["partition"] for each in node["assetMaterializations"]]


def running(pages: Pages) -> list[dict[str, str]]:
    """Runs that have not ended."""
    found: list[dict[str, str]] = pages.ask(RUNNING)["runsOrError"]["results"]
    return found


def materialize(page: Page, pages: Pages, *partitions: str) -> None:
    """Choose partitions in the dialog of the asset `records`, launch, and wait until each is materialized again."""
    before = materializations(pages, "records")
    page.goto("/assets/shop/records")
    page.get_by_role("button", name="Materialize").first.click()
    page.get_by_text("Select a partition or create one").click()
    for partition in partitions:
        page.get_by_role("menuitem").filter(has_text=partition).first.click()
    page.keyboard.press("Escape")
    expect(page.get_by_text(f"{len(partitions)} partition").first).to_be_visible()
    page.get_by_role("button", name=re.compile("^Launch")).last.click()

    def done() -> bool:
        now = materializations(pages, "records")
        return all(now.count(each) > before.count(each) for each in partitions)

    wait_for(done, pages)
    wait_for(lambda: not running(pages), pages)
    after = materializations(pages, "records")
    assert {key: after.count(key) - before.count(key) for key in set(after)} == {
        key: int(key in partitions) for key in set(after)
    }


@pytest.mark.long
def test_the_page_of_an_asset_shows_what_the_command_line_has_made(page: Page) -> None:
    page.goto("/assets/shop/records?view=partitions&partition=orders-0")

    expect(page.get_by_text("dagster/partition_row_count").first).to_be_visible()
    page.goto("/assets/shop/records?view=events")
    expect(page.get_by_text("orders-1").first).to_be_visible()


@pytest.mark.long
def test_the_lineage_reads_from_left_to_right_as_the_journey_of_the_data(page: Page) -> None:
    page.goto("/locations/loglake/asset-groups/shop/lineage")

    lefts = []
    for asset in ("log_directories", "archived_segments", "validated_segments", "records", "offset_ledger"):
        node = page.get_by_text(asset, exact=True).first
        expect(node).to_be_visible()
        lefts.append(node.bounding_box()["x"])
    assert lefts == sorted(lefts)
    assert len(set(lefts)) == len(lefts)


def test_descriptions_in_the_catalog_are_plain_sentences(page: Page) -> None:
    page.goto("/assets")
    expect(page.get_by_text("The table to query").first).to_be_visible()

    words = page.inner_text("body")

    assert not re.search(r"\*\*|```|\]\(|`", words), words


RED = """() => [...document.querySelectorAll("*")].some(each => {
  const [red, green, blue] = (getComputedStyle(each).backgroundColor.match(/\\d+/g) || [0, 0, 0]).map(Number);
  return red > 180 && green < 80 && blue < 80 && each.getClientRects().length > 0; })"""


def test_the_first_page_shows_red_where_a_check_of_a_lake_has_failed(page: Page) -> None:
    page.goto("/")

    expect(page.get_by_text("shop", exact=True).first).to_be_visible()
    page.wait_for_function(RED)
    assert page.url.endswith("/asset-groups")


def test_a_table_is_brought_up_to_date_from_its_own_page(page: Page, pages: Pages) -> None:
    last = """query { runsOrError(limit: 1) { ... on Runs { results { status assetSelection { path } } } } }"""
    page.goto("/assets/shop/offset_ledger")
    page.get_by_role("button", name="Materialize").first.click()

    def done() -> bool:
        runs = pages.ask(last)["runsOrError"]["results"]
        return runs == [{"status": "SUCCESS", "assetSelection": [{"path": ["shop", "offset_ledger"]}]}]

    wait_for(done, pages)


@pytest.mark.long
def test_a_red_check_says_where_the_damage_is_and_what_to_do(page: Page, place: Place) -> None:
    page.goto("/assets/shop/validated_segments?view=checks&checkDetail=no_damage")

    expect(page.get_by_text("Failed").first).to_be_visible()
    expect(page.get_by_text("what to do").first).to_be_visible()
    words = page.inner_text("body")
    assert "payments-0 of lake shop\t[5, 10)\t" in words
    assert "00000000000000000000.log" in words
    assert "--fill-from COPY" in words
    assert str(place.shop) in words


@pytest.mark.long
def test_the_link_of_a_check_opens_its_data_docs(page: Page) -> None:
    page.goto("/assets/shop/records?view=checks&checkDetail=expectations_met")
    link = page.locator("a[href*='/data_docs/']").first
    expect(link).to_be_visible()

    page.goto(link.get_attribute("href"))

    expect(page.get_by_text("orders-0").first).to_be_visible()
    assert "Traceback" not in page.inner_text("body")


@pytest.mark.long
def test_the_picture_of_a_topic_partition_names_its_damaged_offsets(page: Page) -> None:
    page.goto("/assets/shop/validated_segments?view=partitions&partition=payments-0")
    expect(page.get_by_text("[5, 10) corrupt").first).to_be_visible()

    page.get_by_text("[Show Markdown]").first.click()

    picture = page.locator("img[src^='data:image/svg+xml']").first
    expect(picture).to_be_visible()
    wait_for(lambda: picture.evaluate("image => image.complete && image.naturalWidth"))
    drawn = base64.b64decode(picture.get_attribute("src").partition(",")[2]).decode()
    assert "offsets [5, 10) corrupt" in drawn
    assert "1 damaged range: 5 corrupt of 15 offsets" in drawn


@pytest.mark.long
def test_a_materialization_of_one_partition_is_launched_and_shows_its_metadata(page: Page, pages: Pages) -> None:
    materialize(page, pages, "orders-0")

    page.goto("/assets/shop/records?view=partitions&partition=orders-0")
    for name, value in (
        ("published up to offset", "12"),
        ("open transactions", "none"),
        ("offsets not published", "0"),
    ):
        row = page.get_by_role("row").filter(has_text=name)
        expect(row.first).to_contain_text(value)


@pytest.mark.long
def test_a_backfill_of_two_partitions_is_one_run_that_makes_both(page: Page, pages: Pages) -> None:
    materialize(page, pages, "orders-0", "orders-1")

    (backfill,) = pages.ask(BACKFILLS)["partitionBackfillsOrError"]["results"]
    wait_for(lambda: pages.ask(BACKFILL, id=backfill["id"])["partitionBackfillOrError"]["status"] != "REQUESTED", pages)
    state = pages.ask(BACKFILL, id=backfill["id"])["partitionBackfillOrError"]
    assert (state["status"], state["numPartitions"], len(state["runs"])) == ("COMPLETED_SUCCESS", 2, 1), state
    page.goto(f"/runs/b/{backfill['id']}")
    expect(page.get_by_text("orders-0").or_(page.get_by_text("2 partitions")).first).to_be_visible()


@pytest.mark.long
def test_a_canceled_run_frees_its_lease_and_leaves_nothing_half_done(page: Page, pages: Pages, place: Place) -> None:
    selector = {
        "repositoryLocationName": "loglake",
        "repositoryName": "__repository__",
        "jobName": "busy__intake",
    }
    launched = pages.ask(LAUNCH, p={"selector": selector, "mode": "default", "runConfigData": {}})["launchRun"]
    run = launched["run"]["runId"]
    page.goto(f"/runs/{run}")
    expect(page.get_by_text('Started execution of step "busy.ingest"').first).to_be_visible()

    page.get_by_role("button", name="Terminate").first.click()
    page.get_by_role("button", name="Terminate 1 run").click()

    canceled = time.monotonic()
    wait_for(lambda: all(each["id"] != run for each in running(pages)), pages)
    assert pages.ask(STATUS, i=run)["runOrError"]["status"] == "CANCELED"
    page.goto(f"/runs/{run}")
    expect(page.get_by_text("Canceled").first).to_be_visible()
    print(f"canceled after {time.monotonic() - canceled:.1f} s")
    one = ("--topic", "clicks", "--partition", "7")
    again = loglake("run", place.home.parent / "busy-logs", "--lake", place.busy, *one, LOGLAKE_HOME=str(place.home))
    assert again.returncode == 0, again.stderr
    proved = loglake("verify", place.busy, LOGLAKE_HOME=str(place.home))
    assert proved.returncode == 0, proved.stdout


def test_a_schedule_that_is_turned_on_shows_its_next_tick(page: Page) -> None:
    page.goto("/locations/loglake/schedules/shop__nightly_maintenance")
    expect(page.get_by_text("At 03:00 AM UTC").first).to_be_visible()
    page.get_by_role("row").filter(has_text="Running").locator("label").first.click()

    expect(page.get_by_text("Next tick").first).to_be_visible()
    expect(page.get_by_text(re.compile(r"3:00.*AM")).first).to_be_visible()


def test_a_schedule_whose_policies_cannot_be_used_is_red_and_the_page_says_why(page: Page, place: Place) -> None:
    sound = place.policies.read_text()
    place.policies.write_text("lake: {ingest: evry 5 min}")
    try:
        page.goto("/locations/loglake/schedules/busy__timed_intake")
        page.get_by_role("row").filter(has_text="Running").locator("label").first.click()

        # With policies that cannot be used a tick fails each minute, and says why.
        expect(page.get_by_text("Failure", exact=True).first).to_be_visible(timeout=210_000)
        page.get_by_role("button", name="View", exact=True).first.click()
        expect(page.get_by_text("evry 5 min").first).to_be_visible()
    finally:
        place.policies.write_text(sound)
