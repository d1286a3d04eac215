"""Dagster's webserver with our own pages below ``/loglake``: ``python -m pipelines.ui.webserver``.

Its options are those of ``dagster-webserver``. What Dagster's pages link to is served under the same address, so links
work through any proxy.
"""

from __future__ import annotations

from typing import Any

import dagster_webserver.cli
from starlette.applications import Starlette

from pipelines.ui.pages import our_routes

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
