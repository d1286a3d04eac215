"""The JSON schema (draft 2020-12) of ``policies.yaml``, for editors that complete and check while one types.

It is made from the declared settings. ``policies_file`` is stricter in two places: numbers must be in plain digits, and
a policy that removes something must state ``cleanup.policy``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_jobs.policies.lake_settings import LAKE_SETTINGS
from spark_jobs.policies.policy_values import (
    TIMES,
    FilePath,
    Name,
    NameList,
    OneOf,
    Pace,
    PlaceList,
    Ratio,
    SomeOf,
    TopicOrAddress,
    VariableOrPath,
    WebAddress,
    WholeNumber,
    unit_names,
)
from spark_jobs.policies.setting import Setting
from spark_jobs.policies.topic_settings import SETTINGS


def policy_schema() -> dict[str, Any]:
    """Return the schema as plain values."""
    return {
        "title": "Policies of Loglake",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "lake": _object(LAKE_SETTINGS),
            "topics": {"type": "object", "additionalProperties": _object(SETTINGS)},
        },
    }


def _object(settings: Mapping[str, Setting]) -> dict[str, Any]:
    properties = {name: _property(setting) | {"description": setting.meaning} for name, setting in settings.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _property(setting: Setting) -> dict[str, Any]:
    match setting.values:
        case WholeNumber(least, greatest) as number:
            plain = {"type": "integer", "minimum": least, "maximum": greatest}
            return {"anyOf": [plain, {"type": "string", "pattern": number.pattern}]} if number.pattern else plain
        case Ratio():
            return {"type": "number", "minimum": 0, "maximum": 1}
        case OneOf(words):
            # YAML reads 4.0 as a number
            numbers = [float(word) for word in words if word.replace(".", "", 1).isdigit()]
            return {"enum": [*words, *numbers]}
        case SomeOf(words):
            word = {"enum": list(words)}
            listed = f"^ *({'|'.join(words)})( *, *({'|'.join(words)}))* *$"
            return {"anyOf": [{"type": "string", "pattern": listed}, {"type": "array", "items": word}]}
        case FilePath() | VariableOrPath() | TopicOrAddress() | Name():
            return {"type": "string"}
        case NameList() | PlaceList():
            return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
        case WebAddress():
            return {"type": "string", "pattern": "^(env:|https?://)"}
        case Pace(words):
            every = f"^every +[0-9]+ ?({'|'.join(unit_names(TIMES))})?$"
            return {"anyOf": [{"enum": list(words)}, {"type": "string", "pattern": every}]}
