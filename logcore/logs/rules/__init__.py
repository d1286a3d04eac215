"""The rule catalogue: every rule id that a finding may have.

Rule ids are kebab-case and stable. They are stored in the `findings` table and printed by the command line.
`loglake help RULE` prints a rule of this catalogue. Add the rule of a new check to its group in `rules.txt`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from logcore.logs.rules.rule import Outcome, Persistence, Rule, Severity
from logcore.logs.rules.rule_text import parse_rules

__all__ = ["RULES", "RULE_GROUPS", "Outcome", "Persistence", "Rule", "Severity"]

RULE_GROUPS: Mapping[str, Mapping[str, Rule]] = MappingProxyType(
    parse_rules((pkgutil.get_data(__name__, "rules.txt") or b"").decode())
)
"""Rules by the title under which `loglake help rules` lists them."""

RULES: Mapping[str, Rule] = MappingProxyType(
    {name: rule for group in RULE_GROUPS.values() for name, rule in group.items()}
)
"""Every rule by its id. `findings.found` refuses ids that are missing."""
