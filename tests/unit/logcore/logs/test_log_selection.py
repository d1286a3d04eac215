"""A selection of logs: globs of topics, partition numbers, names; empty conditions choose every log."""

import pytest

from logcore.logs.model.log_selection import LogSelection

TOPICS = ("orders", "orders-eu", "payments", "__consumer_offsets")
LOGS = [(topic, partition) for topic in TOPICS for partition in (0, 1)]


def chosen(selection: LogSelection) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in LOGS if selection.matches(topic, partition)]


def test_an_empty_selection_chooses_every_log() -> None:
    assert LogSelection().is_everything
    assert len(chosen(LogSelection())) == len(LOGS)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (LogSelection(topics=("orders",)), ["orders-0", "orders-1"]),
        (LogSelection(topics=("order?",)), ["orders-0", "orders-1"]),
        (LogSelection(topics=("Orders",)), []),
        (LogSelection(topics=("pay*", "__*"), partitions=(1,)), ["payments-1", "__consumer_offsets-1"]),
        (LogSelection(partitions=(7,)), []),
        (LogSelection(names=("orders-eu-0", "payments-1")), ["orders-eu-0", "payments-1"]),
        (LogSelection(topics=("orders",), names=("orders-0", "payments-0")), ["orders-0"]),
        (LogSelection(partitions=(1,), names=("orders-0",)), []),
    ],
)
def test_a_log_is_chosen_if_it_meets_every_condition(selection: LogSelection, expected: list[str]) -> None:
    assert chosen(selection) == expected
    assert not selection.is_everything


def test_none_in_options_is_an_empty_condition() -> None:
    assert LogSelection.of(None, None) == LogSelection()
    assert LogSelection.of(["a*"], [3], ["a-3"]) == LogSelection(("a*",), (3,), ("a-3",))


def test_patterns_that_match_no_topic_are_named_in_their_order() -> None:
    selection = LogSelection(topics=("x*", "ord*", "Orders", "__consumer_*"))
    assert selection.unmatched_topics(TOPICS) == ("x*", "Orders")
    assert LogSelection().unmatched_topics(TOPICS) == ()


def test_partition_numbers_that_no_log_has_are_named_in_their_order() -> None:
    assert LogSelection(partitions=(9, 1, 4)).unmatched_partitions({0, 1}) == (9, 4)
