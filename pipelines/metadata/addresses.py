"""Addresses of our pages below ``/loglake`` on the webserver, without its prefix."""

from __future__ import annotations

from urllib.parse import quote

from spark_jobs.lake.view.expectation_results import page_name

ROOT = "/loglake"
DATA_DOCS = "/lakes/{lake}/data_docs/{page:path}"
"""Route of the Data Docs of a lake, below :data:`ROOT`."""


def data_docs_address(lake: str, name: str, page: str) -> str:
    """The address of a page of the Data Docs.

    Args:
        lake: Path or address of the lake.
        name: Name of the lake in its home.
        page: Path of the page.
    """
    return f"{ROOT}/lakes/{quote(name, safe='')}/data_docs/{page_name(lake, page)}"
