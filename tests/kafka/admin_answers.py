"""Lines of `groups`, `topics` and `metadata` in the form in which the Admin API describes the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

DEFAULT_ASSIGNOR = "uniform"
"""What a broker says of a consumer group whose members name no assignor; the log does not have it."""

Line = dict[str, Any]


def described_group(line: Line) -> Line:
    """A line of `groups`."""
    assignor = line["assignor"] or (DEFAULT_ASSIGNOR if line["type"] == "Consumer" else "")
    return {
        "group": line["group"],
        "type": line["type"],
        "state": line["state"],
        "assignor": assignor,
        "members": [
            {
                "member_id": member["member_id"],
                "instance_id": member["instance_id"],
                "client_id": member["client_id"],
                "host": member["host"],
                "assignment": sorted(
                    f"{entry['topic']}-{number}" for entry in member["assignment"] for number in entry["partitions"]
                ),
            }
            for member in line["members"]
        ],
        "offsets": {
            f"{commit['topic']}-{commit['partition']}": {
                "offset": commit["offset"],
                "leader_epoch": commit["leader_epoch"],
                "metadata": commit["metadata"],
            }
            for commit in line["offsets"]
        },
    }


def described_topics(lines: Iterable[Line], *fields: str) -> dict[str, Line]:
    """Lines of `topics`: id, and these fields of each partition, by name of the topic."""
    return {
        line["topic"]: {
            "topic_id": line["topic_id"],
            "partitions": [{name: partition[name] for name in fields} for partition in line["partitions"]],
        }
        for line in lines
    }


def described_settings(lines: Iterable[Line]) -> dict[str, dict[str, str | None]]:
    """Settings among the lines of `metadata`, by type and name of their resource; a secret has no value."""
    found: dict[str, dict[str, str | None]] = {}
    for line in lines:
        if line["kind"] == "setting":
            value = None if line["value"] == "(redacted)" else line["value"]
            found.setdefault(f"{line['resource_type']} {line['resource']}", {})[line["name"]] = value
    return found
