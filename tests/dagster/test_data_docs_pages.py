"""The link of a check opens the page of its lake, and no other file."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pipelines.metadata.addresses import data_docs_address
from pipelines.ui.webserver import our_routes
from spark_jobs.lake.setup.registry import register
from spark_jobs.lake.view.registered_lakes import read_registered

pytestmark = pytest.mark.dagster


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registered lake with a page whose name has signs that an address quotes."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    made = tmp_path / "shop"
    page = made / "data_docs" / "validations" / "run 1#2.html"
    page.parent.mkdir(parents=True)
    page.write_text("<p>met</p>")
    (made / "secret.html").write_text("not a page")
    register(str(made))
    return made


@pytest.mark.parametrize("prefix", ["", "/team/dagster"])
def test_the_link_of_a_check_opens_its_page(lake: Path, prefix: str) -> None:
    pages = TestClient(Starlette(routes=our_routes(prefix)))
    name = read_registered(str(lake)).name

    answer = pages.get(prefix + data_docs_address(str(lake), name, f"{lake}/data_docs/validations/run 1#2.html"))

    assert (answer.status_code, answer.text) == (200, "<p>met</p>")
    assert answer.headers["content-security-policy"].startswith("sandbox")


def test_a_page_outside_of_the_data_docs_is_not_sent(lake: Path) -> None:
    pages = TestClient(Starlette(routes=our_routes("")))

    assert pages.get("/loglake/lakes/shop/data_docs/%2e%2e/secret.html").status_code == 404
    assert pages.get("/loglake/lakes/other/data_docs/index.html").status_code == 404
