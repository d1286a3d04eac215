"""Planted into what Dagster's pages show."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

OF_PARTITIONS = "tests/dagster/test_red_checks.py"
BROWSER = "tests/browser/test_pages_in_browser.py"

FAULTS = (
    Fault(
        "a red check does not say where",
        "pipelines/run/check_definitions.py",
        "facts[WHERE] = table_value(",
        "table_value(",
        (OF_PARTITIONS, "-k", "names_lake"),
    ),
    Fault(
        "a table is materialized in a run that did not change it",
        "pipelines/catalog/tables.py",
        "_last_version(instance, key) != table_version(lake.path, table.name)",
        "table_version(lake.path, table.name) is not None",
        ("tests/dagster/test_tables_as_assets.py", "-k", "changed_no_table"),
    ),
    Fault(
        "damage that is narrower than a pixel is not drawn wider",
        "logcore/logs/ledger/ledger_picture.py",
        "width = max(self.x(each.end_offset) - left, _SMALLEST)",
        "width = self.x(each.end_offset) - left",
        ("tests/unit/logcore/logs/test_ledger_picture.py", "-k", "written_and_can_be_seen"),
    ),
    Fault(
        "damaged ranges without room for a label are not listed",
        "logcore/logs/ledger/ledger_picture.py",
        "    if left:\n        listed,",
        "    if left > 1:\n        listed,",
        ("tests/unit/logcore/logs/test_ledger_picture.py", "-k", "close or adjacent"),
    ),
    Fault(
        "the link of a check is an address in another form than the page",
        "pipelines/metadata/addresses.py",
        "/data_docs/{page_name(lake, page)}",
        "/data_docs/{page}",
        ("tests/dagster/test_data_docs_pages.py",),
    ),
    Fault(
        "the columns of a strip are floats",
        "logcore/logs/ledger/ledger_picture.py",
        "bisect_left(ends, scale.start + low // columns + 1)",
        "bisect_left(ends, int(float(scale.start) + low / columns) + 1)",
        ("tests/unit/logcore/logs/test_ledger_picture.py", "-k", "however_large"),
    ),
    Fault(
        "the metadata of a damaged topic partition names no offsets",
        "pipelines/metadata/reporting.py",
        "    if not log.is_damaged:\n        return",
        "    if log.is_damaged:\n        return",
        ("tests/dagster/test_pictures.py", "-k", "in_words"),
    ),
    Fault(
        "the webserver has no Data Docs",
        "pipelines/ui/webserver.py",
        "app.router.routes[:0] = our_routes(path_prefix)",
        "app.router.routes[len(app.router.routes) :] = our_routes(path_prefix)",
        (BROWSER, "-k", "data_docs"),
    ),
    Fault(
        "a tick that starts nothing has no reason",
        "pipelines/schedules.py",
        'return dg.SkipReason(f"The lake {lake.path} is left out: {error}")',
        "return dg.SkipReason()",
        (BROWSER, "-k", "daemon"),
    ),
    Fault(
        "the catalog shows Markdown",
        "pipelines/run/chains.py",
        '"The table to query: every record',
        '"The table to query: **every** record',
        (BROWSER, "-k", "plain_sentences"),
    ),
)
