"""What explains a gap, and what says that it is a loss."""

import pytest

from logcore.logs.model.gaps import GapRules


@pytest.mark.parametrize(
    ("rules", "loss", "cleaned"),
    [
        (GapRules(), "no-explanation", None),
        (GapRules(cleaner_checkpoint=9), None, "cleaner-checkpoint"),
        (GapRules(cleaner_checkpoint=8), "no-explanation", None),
        (GapRules(compacted_by_policy=True), None, "cleanup-policy"),
        (GapRules(cleaner_checkpoint=9, compacted_by_policy=True), None, "cleaner-checkpoint"),
        (GapRules(cleaner_checkpoint=9, evidence=[(8, 12, "trimmed")]), "trimmed", None),
        (GapRules(compacted_by_policy=True, evidence=[(0, 6, "trimmed")]), "trimmed", None),
        (GapRules(cleaned_below=lambda: 9), None, "cleaned-batch"),
        (GapRules(cleaned_below=lambda: 8), "no-explanation", None),
        (GapRules(cleaned_below=lambda: 9, evidence=[(8, 12, "trimmed")]), "trimmed", None),
        (GapRules(compacted_by_policy=True, evidence=[(0, 5, "x"), (9, 20, "y")]), None, "cleanup-policy"),
    ],
)
def test_a_gap_is_a_loss_unless_something_explains_it(rules, loss, cleaned) -> None:
    assert (rules.loss(5, 9), rules.cleaned(5, 9)) == (loss, cleaned)


def test_evidence_is_found_in_whatever_order_and_overlap_it_was_given() -> None:
    rules = GapRules(evidence=[(50, 60, "c"), (0, 100, "a"), (10, 20, "b"), (200, 201, "d")])
    assert [rules.loss(at, at + 1) for at in (0, 15, 55, 99, 100, 200, 201)] == [
        "a",
        "a",
        "a",
        "a",
        "no-explanation",
        "d",
        "no-explanation",
    ]
