"""Where schemas of a registry come from: the rows of its topic in the lake, or its address (standard library).

Credentials of a schema registry, from an environment variable or a file. A policy names the place, not the secret.

The text is ``USER:PASSWORD`` for HTTP basic authentication, or ``Bearer TOKEN``. Only the driver reads it, to plan.
It is in no task, no configuration of a job, no error and no log.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from logcore.values.limits import LARGEST_SCHEMA, MOST_COLUMNS
from logcore.values.prefix import SchemaId
from logcore.values.registry.schemas import RegisteredSchema, Schemas, SchemaVersion, context_of, qualified
from logcore.values.registry.schemas_topic import TopicState, fold_schemas_topic, registered_schema
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.published.published_rows import Span, published_rows
from spark_jobs.lake.segments import archive
from spark_jobs.policies.policy_values import VARIABLE_PREFIX, is_address

_BEARER = "Bearer "
_LARGEST = 64 << 10
"""Bytes of a file with credentials; tokens of the usual kinds have a few kilobytes."""


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """What a request to a registry is authorized with. Its text form has no secret."""

    place: str
    """Where they come from: ``env:NAME``, or a path."""
    authorization: str = field(repr=False)
    """Value of the header ``Authorization`` (RFC 7617, RFC 6750)."""

    @classmethod
    def of(cls, place: str) -> RegistryCredentials:
        """Read credentials.

        Args:
            place: ``env:`` and the name of a variable, or the path of a file.

        Raises:
            UsageError: The variable is not set, the file can't be read, or the text is of neither form.
        """
        text = _text(place).strip("\r\n")
        if text.startswith(_BEARER):
            token = text.removeprefix(_BEARER).strip()
            if token and token.isascii() and token.isprintable() and " " not in token:
                return cls(place, _BEARER + token)
        elif ":" in text and text.isprintable():
            return cls(place, "Basic " + base64.b64encode(text.encode()).decode())
        raise UsageError(
            f"The credentials of the schema registry in {place} have neither the form USER:PASSWORD nor Bearer TOKEN, "
            "in one line."
        )


def _variable(place: str, what: str) -> str:
    """The value of the variable that a place names. It has something of the schema registry."""
    variable = place.removeprefix(VARIABLE_PREFIX)
    text = os.environ.get(variable)
    if not text:
        raise UsageError(f"The variable {variable} is not set. Put the {what} of the schema registry there.")
    return text


def _text(place: str) -> str:
    if place.startswith(VARIABLE_PREFIX):
        return _variable(place, "credentials")
    try:
        with open(place, "rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise UsageError(f"The file {place} has more than {_LARGEST} bytes: these are no credentials.")
        return content.decode()
    except OSError as error:
        raise UsageError(
            f"The credentials of the schema registry {place} can't be read: {error.strerror}. Put USER:PASSWORD there."
        ) from error
    except UnicodeDecodeError:
        raise UsageError(f"The credentials of the schema registry in {place} are not UTF-8 text.") from None


_COLUMNS = ("log_id", "partition", "offset", "key", "value")


class SchemaSources:
    """The sources of one plan. Each topic is read once."""

    def __init__(self, lake: str, history: RecordsHistory) -> None:
        self._lake, self._history = lake, history
        self._topics: dict[str, TopicState] = {}

    def schemas(
        self, place: str, subjects: Sequence[str], credentials: str | None = None
    ) -> tuple[Schemas, str | None]:
        """Return schemas of subjects, and what was strange in their source.

        Args:
            place: Name of a topic, an address, or ``env:`` with the variable that holds an address.
            credentials: Where those for the address are; None: it needs none.

        Raises:
            UsageError: The topic has no published record, a variable is not set, or the credentials can't be read.
            RegistryUnavailable: The registry does not answer.
            TableUnreadable: A file of ``records`` is damaged.
        """
        if not is_address(place):
            state = self._topic(place)
            found = [f"{each.count} × {each.kind} ({each.detail})" for each in state.findings]
            return state.schemas, f"the topic {place} has {', '.join(found)}" if found else None
        if place.startswith(VARIABLE_PREFIX):
            place = _variable(place, "address")
        read = None if credentials is None else RegistryCredentials.of(credentials)
        return RegistryAddress(place, credentials=read).schemas(subjects), None

    def _topic(self, topic: str) -> TopicState:
        if topic not in self._topics:
            self._topics[topic] = fold_schemas_topic(self._rows(topic))
        return self._topics[topic]

    def _rows(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values of a topic in the order of their offsets, one log after the other."""
        logs = [log for log in archive.read_logs(self._lake).values() if log.topic == topic]
        ends = frontier.read_frontiers(self._lake, [log.log for log in logs])
        found: list[tuple[bytes | None, bytes | None]] = []
        for log in sorted(logs, key=lambda each: (each.partition, each.incarnation)):
            rows: list[tuple[int, bytes | None, bytes | None]] = []
            span = Span(topic, log.log_id, log.partition, 0, ends[log.log] or 0)
            for batch in published_rows(self._lake, self._history.files, span, _COLUMNS):
                rows += zip(*(batch[name].to_pylist() for name in ("offset", "key", "value")), strict=True)
            rows.sort(key=lambda row: row[0])
            found += [(key, value) for _, key, value in rows]
        if not found:
            raise JobError(f"no schema can be read: the lake has no published record of the topic {topic}")
        return found


_SCHEMES = ("http", "https")
_LARGEST_ANSWER = 4 * LARGEST_SCHEMA
_PART_BYTES = 1 << 16
_MOST_TIMEOUTS = 6
"""A whole answer may take so many times as long as the wait for a part of it."""
_NOT_ALLOWED = (401, 403)
_AUTHORIZATION = "Authorization"


class RegistryUnavailable(JobError):
    """A schema registry does not answer, or gives another answer than one does. The topic has to wait."""


class RegistryAddress:
    """Reads the schemas of subjects; deleted versions too, because they still decode old values.

    Args:
        address: Such as `http://localhost:8081`.
        timeout_s: For each request.
        credentials: Sent with each request to this host and port, and to no other; None: there are none.

    Raises:
        UsageError: From the constructor, if the address is not one of HTTP or has a user's name in it.
    """

    def __init__(self, address: str, timeout_s: float = 10, credentials: RegistryCredentials | None = None) -> None:
        try:
            parts = urllib.parse.urlsplit(address)
            host = parts.hostname
        except ValueError:
            parts, host = urllib.parse.urlsplit(""), None
        if parts.scheme not in _SCHEMES or not host or parts.username is not None:
            raise UsageError(
                "The address of a schema registry needs http or https and a host. Leave a user's name out: "
                "decode.schemas.credentials names the place of credentials."
            )
        self._credentials = credentials
        self._address, self._host, self._timeout_s = address.rstrip("/"), host, timeout_s

    def schemas(self, subjects: Sequence[str]) -> Schemas:
        """Return all schemas of subjects, and what they refer to. A subject that is unknown has none.

        Raises:
            RegistryUnavailable: The registry did not answer, or gave another answer than one does.
        """
        by_name: dict[tuple[str, SchemaId], RegisteredSchema] = {}
        owners: dict[tuple[str, SchemaId], set[str]] = {}
        versions: dict[tuple[str, int], SchemaVersion] = {}
        for subject in subjects:
            context = context_of(subject)
            for number in self._numbers(subject):
                answer = self._version(subject, number)
                if not isinstance(answer, dict) or not isinstance(answer.get("id"), int):
                    raise self._strange()
                found = self._registered(answer, answer["id"])
                versions[qualified(subject), number] = SchemaVersion(found)
                self._follow(found, context, versions)
                for name in (found.id, found.guid):
                    if name is not None:
                        by_name[context, name] = found
                        owners.setdefault((context, name), set()).add(qualified(subject))
        return Schemas(by_name, {name: frozenset(each) for name, each in owners.items()}, versions)

    def _numbers(self, subject: str) -> list[int]:
        numbers = self._get(f"/subjects/{_quoted(subject)}/versions?deleted=true")
        if numbers is None:
            return []
        if not isinstance(numbers, list) or not all(isinstance(each, int) for each in numbers):
            raise self._strange()
        if len(numbers) > MOST_COLUMNS:
            raise RegistryUnavailable(f"The subject {subject} has more than {MOST_COLUMNS} versions. Use schema files.")
        return numbers

    def _version(self, subject: str, number: int | str) -> Any:
        return self._get(f"/subjects/{_quoted(subject)}/versions/{number}?deleted=true")

    def _follow(self, schema: RegisteredSchema, context: str, versions: dict[tuple[str, int], SchemaVersion]) -> None:
        """Add what a schema refers to, also through others."""
        waiting = list(schema.references)
        while waiting:
            reference = waiting.pop()
            subject = qualified(reference.subject, context)
            if (subject, reference.version) in versions:
                continue
            answer = self._version(subject, "latest" if reference.version < 0 else reference.version)
            if answer is None:
                continue
            number = answer.get("id") if isinstance(answer, dict) else None
            found = self._registered(answer, number if isinstance(number, int) else 0)
            versions[subject, reference.version] = SchemaVersion(found)
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
        if self._credentials is not None:  # unredirected: another host must not get it
            request.add_unredirected_header(_AUTHORIZATION, self._credentials.authorization)
        try:
            with urllib.request.build_opener(_WebOnly).open(request, timeout=self._timeout_s) as answer:
                text = self._whole(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise RegistryUnavailable(
                f"The schema registry {self._host} answered with status {error.code}. {self._advice(error.code)}"
            ) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
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

    def _whole(self, answer: http.client.HTTPResponse) -> bytes:
        """The answer, or a part of it that is too large already."""
        end, text = time.monotonic() + _MOST_TIMEOUTS * self._timeout_s, bytearray()
        while len(text) <= _LARGEST_ANSWER and (part := answer.read1(_PART_BYTES)):
            text += part
            if time.monotonic() > end:  # each part came in time
                raise TimeoutError
        return bytes(text)

    def _advice(self, status: int) -> str:
        if status not in _NOT_ALLOWED:
            return "Try again, or use schema files."
        if self._credentials is None:
            return "If it needs credentials, name their place in decode.schemas.credentials."
        return f"Check the credentials in {self._credentials.place}, and what they allow to read."

    def _strange(self) -> RegistryUnavailable:
        return RegistryUnavailable(f"{self._host} did not answer as a schema registry does. Check the address.")


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows an answer that leads to another place by http and https alone, as for addresses.

    Credentials follow to the same scheme, host and port alone.
    """

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the request for the other place; None: the answer is an error."""
        if urllib.parse.urlsplit(newurl).scheme not in _SCHEMES:
            return None
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        authorization = req.unredirected_hdrs.get(_AUTHORIZATION)
        if made is not None and authorization is not None and _origin(newurl) == _origin(req.full_url):
            made.add_unredirected_header(_AUTHORIZATION, authorization)
        return made


def _origin(address: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(address)
    return parts.scheme, parts.netloc.lower()


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="", errors="replace")
