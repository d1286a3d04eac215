"""One setting of ``policies.yaml``: name, values, and what it does."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.policies.policy_values import Pace, Values, WholeNumber


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a policy."""

    name: str
    """Name in the file."""
    field: str
    """Field of ``TopicPolicy``, or of ``LakePolicy``."""
    values: Values
    meaning: str
    """Description in one or two sentences, with the unit of a number."""
    is_kafkas: bool = True
    """Whether it is a setting of Kafka, not only of Loglake."""
    removes_nothing: bool = False
    """Whether it only concerns reading and publishing, so that a policy may have it without ``cleanup.policy``."""

    def text(self, value: object) -> str:
        """Return a value for a person, with its unit."""
        if isinstance(self.values, WholeNumber | Pace) and isinstance(value, int):
            return self.values.text(value)
        return ",".join(value) or "none" if isinstance(value, tuple) else str(value)
