"""The rule catalogue: every rule id that a finding may have.

Rule ids are kebab-case and stable. They are stored in the `findings` table and printed by the command line.
`loglake help RULE` prints a rule of this catalogue. Add the rule of a new check to its group.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from logcore.logs.rules.lake_rules import LAKE_STATE_RULES, MAINTENANCE_RULES
from logcore.logs.rules.log_rules import SEGMENT_RULES, SIDE_FILE_RULES, WHOLE_LOG_RULES
from logcore.logs.rules.rule import Outcome, Persistence, Rule, Severity
from logcore.logs.rules.source_rules import GROWTH_RULES, PATH_RULES
from logcore.logs.rules.topic_rules import TOPIC_RULES

__all__ = ["RULES", "RULE_GROUPS", "Outcome", "Persistence", "Rule", "Severity"]

RULE_GROUPS: Mapping[str, Mapping[str, Rule]] = MappingProxyType(
    {
        "Paths and directories": PATH_RULES,
        "Growth of an archive": GROWTH_RULES,
        "Bytes and batches of a segment": SEGMENT_RULES,
        "The log as a whole": WHOLE_LOG_RULES,
        "Segments and the files beside them": SIDE_FILE_RULES,
        "Internal topics": TOPIC_RULES,
        "Maintenance of a lake": MAINTENANCE_RULES,
        "The state of a lake": LAKE_STATE_RULES,
    }
)
"""Rules by the title under which `loglake help rules` lists them."""

RULES: Mapping[str, Rule] = MappingProxyType(
    {name: rule for group in RULE_GROUPS.values() for name, rule in group.items()}
)
"""Every rule by its id. `findings.found` refuses ids that are missing."""
