"""Which logs a selection finds, and which findings about the paths concern it."""

import pytest

from logcore.logs.model.findings import Severity
from logcore.logs.model.log_selection import LogSelection
from logcore.reading.chosen_logs import find_logs
from logcore.reading.read_options import Notes, ReadOptions
from tests.broker_directory import LogDirectory


def names(logs: LogDirectory, selection: LogSelection, notes: Notes) -> list[str]:
    found = find_logs(ReadOptions(paths=(str(logs.path),), selection=selection), notes)
    return [str(log.topic_partition) for log in found]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (LogSelection(), ["orders-0", "orders-1", "payments-0"]),
        (LogSelection(("ord*",)), ["orders-0", "orders-1"]),
        (LogSelection((), (0,)), ["orders-0", "payments-0"]),
        (LogSelection(("orders",), (1,)), ["orders-1"]),
    ],
)
def test_the_selection_chooses_by_topic_and_partition(
    logs: LogDirectory, selection: LogSelection, expected: list[str]
) -> None:
    notes = Notes()
    assert names(logs, selection, notes) == expected
    assert notes.findings == []


def test_a_selection_without_a_match_is_reported_but_is_an_error_only_for_a_check(logs: LogDirectory) -> None:
    options = ReadOptions(paths=(str(logs.path),), selection=LogSelection(("oders",)))
    severities = []
    for is_check in (False, True):
        notes = Notes()
        assert find_logs(options, notes, is_check=is_check) == ()
        severities += [(finding.rule, finding.severity) for finding in notes.findings]
    assert severities == [("nothing-chosen", Severity.INFO), ("nothing-chosen", Severity.ERROR)]


def test_a_finding_about_another_topic_is_not_reported(logs: LogDirectory) -> None:
    (logs.path / "payments-0" / "leader-epoch-checkpoint").write_text("?")
    for selection, rules in (
        (LogSelection(("orders",)), []),
        (LogSelection(("payments",)), ["broken-partition-file"]),
        (LogSelection(), ["broken-partition-file"]),
    ):
        notes = Notes()
        names(logs, selection, notes)
        assert [finding.rule for finding in notes.findings] == rules


def test_a_quiet_rule_is_not_reported(logs: LogDirectory) -> None:
    (logs.path / "replication-offset-checkpoint").unlink()
    options = ReadOptions(paths=(str(logs.path),))
    reported = []
    for quiet in ((), ("no-high-watermark",)):
        notes = Notes()
        find_logs(options, notes, quiet=quiet)
        reported.append({finding.rule for finding in notes.findings})
    assert reported == [{"no-high-watermark"}, set()]


@pytest.mark.parametrize("is_first", [True, False])
def test_of_one_topic_partition_at_two_paths_the_copy_that_ends_higher_is_taken(
    logs: LogDirectory, is_first: bool
) -> None:
    other = LogDirectory(logs.path.parent / "other")
    other.partition("orders-1").append(200)
    other.high_watermarks(orders_1=200)
    paths = (str(other.path), str(logs.path)) if is_first else (str(logs.path), str(other.path))
    notes = Notes()
    taken = find_logs(ReadOptions(paths=paths), notes, is_one_copy=True)
    assert [str(log.topic_partition) for log in taken] == ["orders-0", "orders-1", "payments-0"]
    assert taken[1].directory == str(other.path / "orders-1")
    assert [finding.rule for finding in notes.findings] == ["several-copies"]
    assert all(str(path / "orders-1") in notes.findings[0].message for path in (logs.path, other.path))
