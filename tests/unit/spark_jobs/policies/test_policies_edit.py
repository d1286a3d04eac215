"""`loglake config set`: one topic gets a setting, and everything else in the file stays."""

from __future__ import annotations

import pytest

from logcore.cli.main import main
from spark_jobs.errors import UsageError
from spark_jobs.policies.policies_file import parse_policies, with_settings

FILE = """\
# who owns what
lake:
  nightly: apply
topics:
    "orders-*":   # all orders
        cleanup.policy: delete     # as at the broker
        retention.ms: 7d
        decode.value.subjects:
          - orders-value
          - old-orders
    "*":
        on_recreate: append
"""

MATCHED = """\
# who owns what
lake:
  nightly: apply
topics:
    "orders-eu":
      cleanup.policy: delete     # as at the broker
      retention.ms: 7d
      decode.value.subjects:
        - orders-value
        - old-orders
      salvage: permissive
    "orders-*":   # all orders
        cleanup.policy: delete     # as at the broker
        retention.ms: 7d
        decode.value.subjects:
          - orders-value
          - old-orders
    "*":
        on_recreate: append
"""


def test_a_file_that_is_empty_gets_an_entry():
    assert with_settings("", "t", {"salvage": "permissive"}, "p") == 'topics:\n  "t":\n    salvage: permissive\n'


def test_a_topic_that_a_glob_matches_gets_an_entry_of_its_own_with_the_settings_of_the_glob():
    assert with_settings(FILE, "orders-eu", {"salvage": "permissive"}, "p") == MATCHED


def test_a_topic_with_an_entry_gets_the_setting_there_and_an_older_value_is_replaced():
    once = with_settings(FILE, "orders-eu", {"salvage": "permissive"}, "p")
    twice = with_settings(once, "orders-eu", {"salvage": "strict"}, "p")
    assert twice == once.replace("salvage: permissive", "salvage: strict")
    assert with_settings(twice, "orders-eu", {"salvage": "strict"}, "p") == twice


def test_other_topics_keep_their_policies():
    before, after = parse_policies(FILE), parse_policies(with_settings(FILE, "clicks", {"salvage": "permissive"}, "p"))
    for topic in ("orders-eu", "other"):
        assert before.for_topic(topic) == after.for_topic(topic) or after.for_topic(topic).lines
        assert after.for_topic(topic).salvage == "strict"
    assert after.for_topic("clicks").salvage == "permissive"
    assert after.for_topic("clicks").on_recreate == "append"
    assert after.lake == before.lake


@pytest.mark.parametrize("settings", [{"salvage": "maybe"}, {"salvege": "permissive"}, {"retention.ms": "7d"}])
def test_what_no_policies_file_may_have_is_refused(settings):
    with pytest.raises(UsageError):
        with_settings("", "t", settings, "p")


def test_patterns_in_braces_are_refused_with_what_to_do():
    with pytest.raises(UsageError, match="lines of their own"):
        with_settings("topics: {t: {salvage: permissive}}", "t", {"salvage": "strict"}, "p")


def test_the_command_makes_the_file_and_says_what_it_wrote(tmp_path, capsys):
    file = tmp_path / "policies.yaml"
    assert main(["config", "set", str(file), "orders", "salvage=permissive", "on_truncate=follow"]) == 0
    policy = parse_policies(file.read_text()).for_topic("orders")
    assert (policy.salvage, policy.on_truncate) == ("permissive", "follow")
    assert f"{file}: orders has salvage = permissive" in capsys.readouterr().out
    assert main(["config", "set", str(file), "orders", "salvage"]) == 64
