"""No key, value or secret is on a page: in answers to its questions, in Data Docs, or as a browser shows it.

The source has credentials, a token and a password in the metadata of its cluster. The schema registry asks for a
password. Runs were made by the command line and from the pages; one of them had another password.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from dagster_graphql.client.query import METADATA_ENTRY_FRAGMENT, STEP_EVENT_FRAGMENTS
from playwright.sync_api import Page, Response, expect

from tests.daemons import WAIT_SECONDS
from tests.dagster.conftest import loglake
from tests.jobs.registered_schemas import Registered, avro, named, text, zigzag
from tests.pages import Pages, open_pages, wait_for
from tests.planted_secrets import is_planted, write_metadata
from tests.registry_server import Registry

pytestmark = [pytest.mark.dagster, pytest.mark.browser, pytest.mark.long]

LOGIN, OTHER = "reader:planted-registry-password", "reader:planted-other-password"
VERSIONS = "/subjects/orders-value/versions"
SCHEMA = avro({"name": "id", "type": "long"}, {"name": "note", "type": "string"})
ANSWERS: dict[str, object] = {
    f"{VERSIONS}?deleted=true": [1],
    f"{VERSIONS}/1?deleted=true": {"subject": "orders-value", "version": 1, "id": 1, "schema": SCHEMA},
}
CREDENTIALS = "    decode.schemas.credentials: env:REGISTRY_LOGIN\n    latest: delete\n"

LAUNCH = """mutation($p: ExecutionParams!) { launchRun(executionParams: $p) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
STATUS = "query($i: ID!) { runOrError(runId: $i) { ... on Run { status } } }"
RUNS = """query { runsOrError { ... on Runs { results {
  runId jobName status runConfigYaml tags { key value } assets { key { path } } } } } }"""
EVENTS = (
    STEP_EVENT_FRAGMENTS
    + """query($i: ID!) { logsForRun(runId: $i) { ... on EventConnection { events {
  __typename ... on MessageEvent { message } ...stepEventFragment
  ... on AssetCheckEvaluationEvent { evaluation { description metadataEntries { ...metadataEntryFragment } } }
  ... on RunFailureEvent { error { ...errorFragment } } } } } }"""
)
ASSETS = (
    METADATA_ENTRY_FRAGMENT
    + """query { assetNodes { assetKey { path } description partitionKeys
  metadataEntries { ...metadataEntryFragment }
  assetMaterializations(limit: 50) { partition metadataEntries { ...metadataEntryFragment } }
  assetObservations(limit: 50) { partition metadataEntries { ...metadataEntryFragment } }
  assetChecksOrError { ... on AssetChecks { checks { name description } } } } }"""
)
CHECKS = (
    METADATA_ENTRY_FRAGMENT
    + """query($k: AssetKeyInput!, $n: String!) { assetCheckExecutions(assetKey: $k, checkName: $n, limit: 50) {
  status partition evaluation { description severity metadataEntries { ...metadataEntryFragment } } } }"""
)
PROGRAMS = """query { repositoriesOrError { ... on RepositoryConnection { nodes { name
  jobs { name description tags { key value } } schedules { name description } sensors { name description } } } } }"""


@dataclass
class Shown:
    """What pages gave, by what was asked."""

    texts: dict[str, str] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    """Pages of the Data Docs that checks link to."""

    def keep(self, name: str, answer: dict[str, Any]) -> dict[str, Any]:
        """Keep an answer, with the content of pictures in it."""
        self.texts[name] = json.dumps(answer)
        return answer

    def secrets(self) -> list[str]:
        return [name for name, content in self.texts.items() if is_planted(content.encode())]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a lake after two runs of the command line. The registry answers for as long as the pages are open."""
    folder = tmp_path_factory.mktemp("secrets")
    source = Registered(folder)
    rows = [(b"planted-Key", named(1, zigzag(number) + text("planted-Value"))) for number in range(3)]
    source.write(*rows, (b"planted-Key", named(1, b"planted-")), (b"planted-Key", b"planted-Value"))
    write_metadata(source.source.path / "__cluster_metadata-0")
    command = ("run", source.source.path, "--lake", source.path, "--policies", source.policies)
    home = {"LOGLAKE_HOME": str(folder / "home")}
    with (
        Registry(ANSWERS, f"Basic {base64.b64encode(LOGIN.encode()).decode()}") as registry,
        pytest.MonkeyPatch.context() as patch,
    ):
        source.policy(CREDENTIALS, place=registry.address)
        first = loglake(*command, REGISTRY_LOGIN=LOGIN, **home)
        assert first.returncode in (0, 1, 2), first.stderr
        source.write((b"planted-Key", named(1, zigzag(9) + text("planted-Value"))))
        second = loglake(*command, REGISTRY_LOGIN=OTHER, **home)
        assert "REGISTRY_LOGIN" in second.stdout + second.stderr
        assert not is_planted("".join((first.stdout, first.stderr, second.stdout, second.stderr)).encode())
        patch.setenv("REGISTRY_LOGIN", OTHER)
        yield folder / "home"


@pytest.fixture(scope="module")
def pages(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    with open_pages(home, tmp_path_factory.mktemp("pages")) as pages:
        selector = {"repositoryLocationName": "loglake", "repositoryName": "__repository__", "jobName": "lake__intake"}
        started = pages.ask(LAUNCH, p={"selector": selector, "mode": "default", "runConfigData": {}})["launchRun"]
        run = started["run"]["runId"]
        wait_for(lambda: pages.ask(STATUS, i=run)["runOrError"]["status"] in ("SUCCESS", "FAILURE", "CANCELED"), pages)
        yield pages


@pytest.fixture(scope="module")
def shown(pages: Pages) -> Shown:
    """Answers about every run, event, asset, check and program."""
    shown = Shown()
    for run in shown.keep("runs", pages.ask(RUNS))["runsOrError"]["results"]:
        shown.keep(f"events of {run['runId']}", pages.ask(EVENTS, i=run["runId"]))
    for node in shown.keep("assets", pages.ask(ASSETS))["assetNodes"]:
        key, name = {"path": node["assetKey"]["path"]}, "/".join(node["assetKey"]["path"])
        for check in node["assetChecksOrError"].get("checks", ()):
            answer = shown.keep(f"{name}: {check['name']}", pages.ask(CHECKS, k=key, n=check["name"]))
            entries = [
                entry
                for execution in answer["assetCheckExecutions"]
                for entry in (execution["evaluation"] or {"metadataEntries": ()})["metadataEntries"]
            ]
            shown.links |= {entry["url"] for entry in entries if "/data_docs/" in entry.get("url", "")}
    shown.keep("programs", pages.ask(PROGRAMS))
    for link in sorted(shown.links):
        with urllib.request.urlopen(f"{pages.address}{link}", timeout=WAIT_SECONDS) as response:
            shown.texts[link] = response.read().decode()
    return shown


def test_the_answers_are_about_what_has_secrets(shown: Shown) -> None:
    events = [json.loads(text) for name, text in shown.texts.items() if name.startswith("events of ")]
    [of_the_pages] = events
    assert len(of_the_pages["logsForRun"]["events"]) > 20
    for what in ("5 records, 1 files", "1 records, 1 files"):  # of the command line; its events have no run
        assert f'"{what}' in shown.texts["assets"], what
    everything = "\n".join(shown.texts.values())
    for what in ("cluster_topic_configs", "decoded", "undecoded", "latest", "env:REGISTRY_LOGIN", "status 401"):
        assert what in everything, what
    assert shown.links


def test_no_answer_and_no_page_of_the_data_docs_has_a_key_a_value_or_a_secret(shown: Shown) -> None:
    assert shown.secrets() == []


def test_no_page_in_a_browser_has_a_key_a_value_or_a_secret(page: Page, pages: Pages, shown: Shown) -> None:
    """As shown, and with everything that the page fetched."""
    seen = Shown()

    def keep(response: Response) -> None:
        if response.url.startswith(pages.address) and "static" not in response.url:
            seen.texts[f"{response.url} {len(seen.texts)}"] = response.text()

    page.on("requestfinished", lambda request: keep(request.response()))
    runs = [run["runId"] for run in json.loads(shown.texts["runs"])["runsOrError"]["results"]]
    assets = ["/".join(node["assetKey"]["path"]) for node in json.loads(shown.texts["assets"])["assetNodes"]]
    views = [f"/assets/{asset}?view={view}" for asset in assets for view in ("overview", "checks", "events")]
    for address in ("/runs", "/assets", "/locations", *(f"/runs/{run}" for run in runs), *views):
        page.goto(address)
        expect(page.locator("body")).not_to_be_empty()
        page.wait_for_load_state("networkidle")
        seen.texts[address] = page.content()
    assert len(seen.texts) > len(views)
    assert seen.secrets() == []
