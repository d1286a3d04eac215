"""Dagster's webserver with our own pages below ``/loglake``: ``python -m loglake.ui.webserver``.

Its options are those of ``dagster-webserver``. Its first page is the lineage of all lakes. What Dagster's pages link to
is served under the same address, so links work through any proxy.

A lake is data that may come from another person. So its pages are sent with a policy that lets a browser run no script
of theirs, load nothing, and treat them as pages of another site.
"""

from __future__ import annotations

from typing import Any

import dagster_webserver.cli
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from spark_jobs.lake.view.expectation_results import read_page
from spark_jobs.lake.view.registered_lakes import home_folder, read_home

from ..metadata.addresses import DATA_DOCS, ROOT

_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
}


def our_routes(path_prefix: str) -> list[BaseRoute]:
    """The routes of our pages.

    The first page is the lineage of all lakes: there a failed check makes its asset, and its lake, red. Dagster's own
    first page is the timeline of runs, and a run of the command line is not in it.

    Args:
        path_prefix: What all addresses of the webserver begin with.
    """
    first_page = RedirectResponse(f"{path_prefix}/asset-groups")
    pages = Mount(f"{path_prefix}{ROOT}", routes=[Route(DATA_DOCS, _data_docs)])
    return [Route(f"{path_prefix}/", lambda _: first_page), pages]


def _data_docs(request: Request) -> Response:
    """A page of a lake's Data Docs."""
    named = request.path_params["lake"]
    lake = next((lake for lake in read_home(home_folder()).lakes if lake.name == named), None)
    page = None if lake is None else read_page(lake.path, request.path_params["page"] or "index.html")
    if page is None:
        raise HTTPException(404, "There is no such page. Pages of old runs are removed after a while.")
    return HTMLResponse(page, headers=_HEADERS)


_CLI: Any = dagster_webserver.cli
"""Makes the application under a name that we replace."""


def main() -> None:
    """Run the webserver until it is ended."""
    create = _CLI.create_app_from_workspace_process_context

    def create_with_our_pages(context: Any, path_prefix: str = "", *arguments: Any, **options: Any) -> Starlette:
        app: Starlette = create(context, path_prefix, *arguments, **options)
        # Before Dagster's own routes, of which the last one takes every address.
        app.router.routes[:0] = our_routes(path_prefix)
        return app

    _CLI.create_app_from_workspace_process_context = create_with_our_pages
    _CLI.main()


if __name__ == "__main__":
    main()
