"""External tables of Unity Catalog, over its REST API (`/api/2.1/unity-catalog`)."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from logcore.texts import shown
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake_commands.register.registered_tables import RegisteredTable

_TEXTS = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
"""Names in SQL of Delta's types; those of others are the same."""
_NAMES = {"integer": "INT"}
"""Names in the catalog's API of Delta's types; those of others are the same, in capitals."""
_MOST_BYTES = 16 << 20
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class UnityCatalog:
    """A schema of a catalog, on a server."""

    url: str
    catalog: str
    schema: str
    token: str | None = field(repr=False)

    def __post_init__(self) -> None:
        if urllib.parse.urlsplit(self.url).scheme not in ("http", "https"):
            raise UsageError(f"{shown(self.url)} is no address of a catalog: its scheme is http or https.")

    def register(self, table: RegisteredTable) -> str:
        """Make the table where the catalog has none of this name.

        Returns:
            What happened, in words.

        Raises:
            JobError: The server refuses, does not answer, or has a table of this name elsewhere.
        """
        place = table.uri if "://" in table.uri else f"file://{urllib.parse.quote(table.uri)}"
        full_name = ".".join((self.catalog, self.schema, table.name))
        found = self._ask("GET", f"tables/{urllib.parse.quote(full_name)}")
        if found is None:
            body = {
                "name": table.name,
                "catalog_name": self.catalog,
                "schema_name": self.schema,
                "table_type": "EXTERNAL",
                "data_source_format": "DELTA",
                "storage_location": place,
                "comment": table.one_row,
                "columns": list(_columns(table)),
            }
            if self._ask("POST", "tables", body) is not None:
                return "registered"
            raise JobError(
                f"{shown(self.url)} has no schema {shown(self.catalog)}.{shown(self.schema)}. Make it there, or name "
                "another with --catalog and --schema."
            )
        there = str(found.get("storage_location", ""))
        if there.rstrip("/") != place.rstrip("/"):
            raise JobError(
                f"{shown(full_name)} exists at {shown(there)}, not at {shown(place)}. Remove it there, or choose "
                "another schema with --schema."
            )
        return "already registered"

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any] | None:
        """The answer; None: there is no such thing."""
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            f"{self.url.rstrip('/')}/api/2.1/unity-catalog/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        if self.token is not None:  # unredirected: another host must not get it
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - as above
                found = json.loads(answer.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            said = _message(error.read(_MOST_BYTES))
            raise JobError(f"{shown(self.url)} refuses {method} {path}: {error.code} {shown(said)}.") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise JobError(f"{shown(self.url)} does not answer: {shown(str(reason))}. Is the server up?") from None
        except ValueError:
            raise JobError(f"{shown(self.url)} does not answer in JSON. Is it a Unity Catalog?") from None
        if not isinstance(found, dict):
            raise JobError(f"{shown(self.url)} answers with another form of JSON. Is it a Unity Catalog?")
        return found


def _message(content: bytes) -> str:
    try:
        found = json.loads(content)
    except ValueError:
        return "without a reason"
    return str(found.get("message", "without a reason")).rstrip(".") if isinstance(found, dict) else "without a reason"


def _columns(table: RegisteredTable) -> Iterator[dict[str, object]]:
    for position, column in enumerate(json.loads(table.schema_json)["fields"]):
        kind = column["type"]
        name = kind["type"] if isinstance(kind, dict) else kind
        listed: dict[str, object] = {
            "name": column["name"],
            "type_text": _text_of(kind),
            "type_json": json.dumps({**column, "metadata": {}}),
            "type_name": "DECIMAL" if name.startswith("decimal") else _NAMES.get(name, name.upper()),
            "position": position,
            "nullable": column["nullable"],
        }
        if name.startswith("decimal"):
            precision, scale = name[len("decimal(") : -1].split(",")
            listed |= {"type_precision": int(precision), "type_scale": int(scale)}
        yield listed


def _text_of(kind: Any) -> str:
    """A type of Delta's schema as SQL has it."""
    if not isinstance(kind, dict):
        return _TEXTS.get(kind, str(kind))
    if kind["type"] == "struct":
        return "struct<" + ",".join(f"{each['name']}:{_text_of(each['type'])}" for each in kind["fields"]) + ">"
    if kind["type"] == "array":
        return f"array<{_text_of(kind['elementType'])}>"
    return f"map<{_text_of(kind['keyType'])},{_text_of(kind['valueType'])}>"
