"""Schemas by id or GUID from a schema registry's address, with the standard library."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any
from uuid import UUID

from logcore.values.limits import LARGEST_SCHEMA
from logcore.values.registry.schemas import (
    RegisteredSchema,
    Schemas,
    SchemaVersion,
    WriterSchema,
    context_of,
    qualified,
)
from logcore.values.registry.schemas_topic import registered_schema
from logcore.values.wire.prefix import SchemaId
from spark_jobs.lake.errors import JobError, UsageError

_LARGEST_ANSWER = 4 * LARGEST_SCHEMA


class RegistryUnavailable(JobError):
    """A schema registry does not answer, or not as one. Nothing is known of the schema; the topic has to wait."""


class RegistryAddress:
    """Asks once for each schema and remembers the answer, also that there is none; make a new one for each run.

    Args:
        address: Such as `http://localhost:8081`.
        timeout_s: For each request.

    Raises:
        UsageError: From the constructor, if the address is not one of HTTP or has a password in it.
    """

    def __init__(self, address: str, timeout_s: float = 10) -> None:
        try:
            parts = urllib.parse.urlsplit(address)
            host = parts.hostname
        except ValueError:
            parts, host = urllib.parse.urlsplit(""), None
        if parts.scheme not in ("http", "https") or not host or parts.username is not None:
            raise UsageError(
                "The address of a schema registry needs http or https and a host. Leave a user's name out."
            )
        self._address, self._host, self._timeout_s = address.rstrip("/"), host, timeout_s
        self._by_name: dict[tuple[str, SchemaId], RegisteredSchema] = {}
        self._subjects: dict[tuple[str, SchemaId], frozenset[str]] = {}
        self._versions: dict[tuple[str, int], SchemaVersion] = {}
        self._asked: set[tuple[str, SchemaId]] = set()

    def writer_schema(self, schema: SchemaId, subject: str, any_subject: bool = False) -> WriterSchema:
        """Return the schema that wrote values of a subject; the same as `Schemas.writer_schema`.

        Raises:
            Undecodable: As of `Schemas.writer_schema`.
            RegistryUnavailable: The registry did not answer.
        """
        name = (context_of(subject), schema)
        if name not in self._asked:
            self._ask(name, subject)
            self._asked.add(name)
        known = Schemas(self._by_name, self._subjects, self._versions)
        return known.writer_schema(schema, subject, any_subject)

    def _ask(self, name: tuple[str, SchemaId], subject: str) -> None:
        context, schema = name
        # A subject without a name stands for its context.
        query = urllib.parse.urlencode({"subject": f":{context}:"})
        kind = "guids" if isinstance(schema, UUID) else "ids"
        answer = self._get(f"/schemas/{kind}/{schema}?{query}")
        if answer is None:
            return
        number = answer.get("id", 0) if isinstance(schema, UUID) else schema
        found = self._registered(answer, number if isinstance(number, int) else 0)
        used = self._used(schema, context, f"{query}&deleted=true")
        self._follow(found, context)
        self._by_name[name] = found
        self._subjects[name] = used

    def _used(self, schema: SchemaId, context: str, query: str) -> frozenset[str]:
        """Subjects of an id. A registry names ids of a GUID, and subjects of ids."""
        ids = [schema]
        if isinstance(schema, UUID):
            listed = self._get(f"/schemas/guids/{schema}/ids?{query}") or []
            if not isinstance(listed, list):
                raise self._strange()
            own = [each for each in listed if isinstance(each, dict) and each.get("context") == context]
            ids = [each["id"] for each in own if isinstance(each.get("id"), int)]
        found: set[str] = set()
        for number in ids:
            versions = self._get(f"/schemas/ids/{number}/versions?{query}") or []
            if not isinstance(versions, list):
                raise self._strange()
            found.update(
                qualified(each["subject"])
                for each in versions
                if isinstance(each, dict) and isinstance(each.get("subject"), str)
            )
        return frozenset(found)

    def _follow(self, schema: RegisteredSchema, context: str) -> None:
        waiting = list(schema.references)
        while waiting:
            reference = waiting.pop()
            subject = qualified(reference.subject, context)
            if (subject, reference.version) in self._versions:
                continue
            version = "latest" if reference.version < 0 else reference.version
            path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}?deleted=true"
            answer = self._get(path)
            if answer is None:
                continue
            number = answer.get("id")
            found = self._registered(answer, number if isinstance(number, int) else 0)
            self._versions[subject, reference.version] = SchemaVersion(found)
            waiting.extend(found.references)

    def _registered(self, answer: dict[str, Any], number: int) -> RegisteredSchema:
        try:
            return registered_schema(answer, number)
        except (ValueError, AttributeError):
            raise self._strange() from None

    def _get(self, path: str) -> Any:
        """The answer in JSON; None: the registry knows no such thing."""
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self._address + path, headers={"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:  # noqa: S310 - as above
                text = answer.read(_LARGEST_ANSWER + 1)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise RegistryUnavailable(
                f"The schema registry {self._host} answered with status {error.code}. Try again, or use schema files."
            ) from None
        except (OSError, ValueError) as error:
            reason = type(getattr(error, "reason", error)).__name__
            raise RegistryUnavailable(
                f"The schema registry {self._host} did not answer: {reason}. Start it, or use schema files."
            ) from None
        try:
            if len(text) > _LARGEST_ANSWER:
                raise ValueError
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self._strange() from None

    def _strange(self) -> RegistryUnavailable:
        return RegistryUnavailable(f"{self._host} did not answer as a schema registry does. Check the address.")
