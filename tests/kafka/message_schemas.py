"""Makes `logcore/messages/schemas/*.txt` from Kafka's jars: `python -m tests.kafka.message_schemas`.

Each jar of `kafka-messages-4.4.0.lock` has the schemas of its messages as JSON with comments. Names, types, versions,
tags and defaults are taken over; prose and everything that no byte depends on is left out. Requests and responses are
left out too.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from tests.conftest import REPOSITORY
from tests.kafka.distribution import message_jars

FOLDER = REPOSITORY / "logcore" / "messages" / "schemas"
FAMILIES = {
    "consumer_offsets": ("kafka-group-coordinator", "Keys and values of `__consumer_offsets`."),
    "transaction_state": ("kafka-transaction-coordinator", "Keys and values of `__transaction_state`."),
    "share_group_state": ("kafka-share-coordinator", "Keys and values of `__share_group_state`."),
    "cluster_metadata": ("kafka-metadata", "Records of `__cluster_metadata` and of its snapshots."),
    "storage_files": ("kafka-storage", "Records of `__remote_log_metadata`, and producer snapshots."),
    "quorum_files": ("kafka-raft", "The file `quorum-state`."),
    "shared_parts": ("kafka-clients", "Control records, and what consumers put into the metadata of their groups."),
}
"""By name of the file: the jar that it is made from, and what it holds."""

_NOTES = (
    "# Made by `tests.kafka.message_schemas`; do not edit.",
    "# `logcore.messages.known_messages` describes the text.",
)
_SCHEMA = re.compile(r"(common/)?(message|metadata)/\w+\.json")
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')
_LEFT_OUT = ("request", "response", "header")


def main() -> None:
    for name, text in texts().items():
        (FOLDER / f"{name}.txt").write_text(text)


def texts() -> dict[str, str]:
    """The text of each family.

    :raises Unavailable: as `message_jars`.
    """
    jars = {jar.artifact: (path, jar) for jar, path in message_jars().items()}
    made = {}
    for name, (artifact, meaning) in FAMILIES.items():
        path, jar = jars[artifact]
        lines = [f"# {meaning}", f"# From {jar.file_name}, SHA-256 {jar.sha256}.", *_NOTES]
        lines += [line for schema in schemas(path) for line in message_lines(schema)]
        made[name] = "\n".join([*lines, ""])
    return made


def schemas(jar: Any) -> list[dict[str, Any]]:
    """The schemas in a jar in the order of their kinds, type numbers and names."""
    with zipfile.ZipFile(jar) as archive:
        texts = [archive.read(name).decode() for name in archive.namelist() if _SCHEMA.fullmatch(name)]
    found = [json.loads(_COMMENT.sub(lambda match: match[1] or "", text)) for text in texts]
    wanted = [schema for schema in found if schema["type"] not in _LEFT_OUT]
    return sorted(wanted, key=lambda schema: (schema["type"], schema.get("apiKey", -1), schema["name"]))


def message_lines(schema: dict[str, Any]) -> Iterator[str]:
    number = schema.get("apiKey", "-")
    yield (
        f"{schema['name']} {schema['type']} {number} versions {schema['validVersions']} "
        f"flexible {schema['flexibleVersions']}"
    )
    yield from field_lines(schema["fields"], "  ")
    for shared in schema.get("commonStructs", ()):
        yield f"  struct {shared['name']}"
        yield from field_lines(shared["fields"], "    ")


def field_lines(fields: list[dict[str, Any]], indent: str) -> Iterator[str]:
    for field in fields:
        name = field["name"][0].lower() + field["name"][1:]
        words = [name, field["type"], field.get("versions", field.get("taggedVersions"))]
        if "nullableVersions" in field:
            words += ["null", field["nullableVersions"]]
        if "tag" in field:
            words += ["tag", str(field["tag"]), field["taggedVersions"]]
        if "flexibleVersions" in field:
            words += ["flexible", field["flexibleVersions"]]
        if field.get("default") not in (None, ""):  # the text "null" is a default, JSON's null is none
            words += ["default", str(field["default"]).lower()]
        if field.get("ignorable"):
            words.append("ignorable")
        yield indent + " ".join(words)
        yield from field_lines(field.get("fields", []), indent + "  ")


if __name__ == "__main__":
    main()
