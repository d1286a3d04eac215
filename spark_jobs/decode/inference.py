"""A proposal for the policy of a topic, from a sample of its published keys and values. Nothing is written.

It says what was seen and how often. Where bytes have several meanings it names them and proposes none.

For JSON the sample gives the JSON Schema that describes its documents, and what no schema could describe.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from logcore.values.formats import decoder_of
from logcore.values.invalid_schema import InvalidSchemaError, check_name
from logcore.values.json.shape import date_of, integer_of, is_cut_moment, moment_of
from logcore.values.json.text import ExactNumber, parse_json
from logcore.values.prefix import LONG_IDS, glue_framing
from logcore.values.undecodable import Undecodable
from spark_jobs.errors import UsageError
from spark_jobs.lake.delta.files.live_files import LiveFile, newest_files
from spark_jobs.lake.published.published_rows import Span, published_rows
from spark_jobs.lake.segments import archive

MOST_FILES = 10
ROWS_OF_A_FILE = 1000
MOST_IDS = 10
"""More different numbers after byte 0 are hardly schema ids."""
_COLUMNS = ("log_id", "partition", "offset", "key", "value")
_LEAST_SHARE = 10
"""One in so many values must be an object or array for JSON to be proposed; the others would be in undecoded/TOPIC."""
_WIDTHS = {1: "boolean", 2: "short", 4: "integer or float", 8: "long or double"}
_PREFIX = 5


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is proposed for keys or values."""

    part: str
    """``key`` or ``value``."""
    format: str | None
    """None: nothing is proposed."""
    schema: Mapping[str, object] | None
    """JSON Schema, for the format ``json``."""
    seen: tuple[str, ...]
    """What was seen, a sentence each."""
    undecoded: float = 0.0
    """Share of the records that the proposal does not decode."""


def propose(lake: str, topic: str) -> tuple[Proposal, Proposal]:
    """Sample a topic.

    Returns:
        The proposals for keys and for values.

    Raises:
        UsageError: No record of the topic is published.
        TableUnreadable: A sampled file is damaged.
    """
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for rows in _sampled(lake, topic):
        keys += rows[0]
        values += rows[1]
    if not keys:
        raise UsageError(f"No record of the topic {topic} is published in {lake}: there is nothing to infer from.")
    return proposal("key", keys), proposal("value", values)


def _sampled(lake: str, topic: str) -> Iterator[tuple[list[bytes | None], list[bytes | None]]]:
    files = [file for file in newest_files(lake, "records") if file.partition_values["topic"] == topic]
    logs = [log for log in archive.read_logs(lake).values() if log.topic == topic]
    for file in _spread(files):
        for log in logs:
            span = Span(topic, log.log_id, log.partition, 0, 1 << 62)
            if not span.may_be_in(file):
                continue
            for batch in published_rows(lake, [file], span, _COLUMNS):
                some = batch.slice(0, ROWS_OF_A_FILE)
                yield some["key"].to_pylist(), some["value"].to_pylist()
                break


def _spread(files: Sequence[LiveFile]) -> list[LiveFile]:
    """At most ``MOST_FILES`` files at equal distances, the same in every call."""
    ordered = sorted(files, key=lambda file: (file.partition or 0, file.min_offset or 0, file.path))
    if len(ordered) <= MOST_FILES:
        return ordered
    return [ordered[at * (len(ordered) - 1) // (MOST_FILES - 1)] for at in range(MOST_FILES)]


def proposal(part: str, sample: Sequence[bytes | None]) -> Proposal:
    """Return the proposal for sampled keys or values."""
    bodies = [body for body in sample if body is not None]
    seen = [f"{len(bodies):,} of {len(sample):,} records have a {part}"]
    if not bodies:
        return Proposal(part, None, None, tuple(seen))
    texts = sum(_is_text(body) for body in bodies)
    seen.append(f"{texts:,} are text in UTF-8")
    if _LEAST_SHARE * texts >= len(bodies):
        of_json, good = _of_json(bodies, seen)
        if of_json is not None:
            return Proposal(part, "json", of_json, tuple(seen), (len(bodies) - good) / len(sample))
    if texts == len(bodies):
        name = "uuid" if _decoded("uuid", None, bodies, []) == len(bodies) else "string"
        return Proposal(part, name, None, tuple(seen))
    _of_bytes(part, bodies, seen)
    return Proposal(part, None, None, tuple(seen))


def _is_text(body: bytes) -> bool:
    try:
        # Numbers in a fixed width are often valid UTF-8 with characters that no text has.
        return not any(ord(sign) < 32 and sign not in "\t\n\r" for sign in body.decode())
    except UnicodeDecodeError:
        return False


def _of_json(bodies: Sequence[bytes], seen: list[str]) -> tuple[Mapping[str, object] | None, int]:
    """The schema of JSON objects, or of arrays, if at least a few values are of that kind; else None.

    And how many values decode with it.
    """
    documents, objects, arrays = 0, SampledPlace(), SampledPlace()
    for body in bodies:
        try:
            value = parse_json(body)
        except Undecodable:
            continue
        documents += 1
        if isinstance(value, dict | list):
            (objects if isinstance(value, dict) else arrays).add(value)
    parts = objects.kinds["object"] + arrays.kinds["array"]
    seen.append(f"{documents:,} are JSON documents, {parts:,} of them objects or arrays")
    if not parts or _LEAST_SHARE * parts < len(bodies):
        return None, 0
    notes: list[str] = []
    schema = _most_of(objects, arrays, parts, notes).schema("", notes)
    seen += notes
    if schema is None:
        return None, 0
    good = _decoded("json", json.dumps(schema), bodies, seen)
    return (schema if good else None), good


def _most_of(objects: SampledPlace, arrays: SampledPlace, documents: int, notes: list[str]) -> SampledPlace:
    """The kind of which more than half of the documents are; both if neither is."""
    (many, kind), (few, other) = sorted(
        ((objects, "object"), (arrays, "array")), key=lambda each: -each[0].kinds[each[1]]
    )
    if 2 * many.kinds[kind] <= documents:
        many.merge(few)
    elif few.kinds[other]:
        notes.append(
            f"{WHOLE}: {many.kinds[kind]:,} of type {kind}, as proposed; {few.kinds[other]:,} of type {other} would "
            "not decode"
        )
    return many


def _decoded(name: str, schema: str | None, bodies: Sequence[bytes], seen: list[str]) -> int:
    """How many bodies decode; ``seen`` gets the reasons of the others."""
    try:
        decoder = decoder_of(name, schema)
    except InvalidSchemaError as error:
        seen.append(f"no schema is proposed: {error}")
        return 0
    reasons: Counter[str] = Counter()
    for body in bodies:
        try:
            decoder.decode(body)
        except Undecodable as failure:
            reasons[failure.reason.value] += 1
    good = len(bodies) - sum(reasons.values())
    failed = "".join(f", {count:,} {reason}" for reason, count in sorted(reasons.items()))
    seen.append(f"{good:,} of {len(bodies):,} decode with the proposal{failed}")
    return good


def _of_bytes(part: str, bodies: Sequence[bytes], seen: list[str]) -> None:
    """Note what bytes that are no text may be."""
    sizes = Counter(len(body) for body in bodies)
    size, count = max(sizes.items(), key=lambda each: (each[1], each[0]))
    if count == len(bodies) and size in _WIDTHS:
        seen.append(f"all have {size} bytes: {_WIDTHS[size]} would fit; choose yourself")
        return
    glue = Counter(filter(None, map(glue_framing, bodies)))
    if glue.total() == len(bodies):
        listed = ", ".join(f"{framing} ({times:,} times)" for framing, times in sorted(glue.items()))
        seen.append(f"all have {listed}: it is not decoded, and nothing is proposed")
        return
    prefixed = [body for body in bodies if body[:1] == b"\0" and len(body) > _PREFIX]
    ids = Counter(int.from_bytes(body[1:_PREFIX], "big") for body in prefixed)
    if len(prefixed) == len(bodies) and set(ids) == {0}:
        seen.append(f"all begin with five bytes 0: {LONG_IDS}; it is not decoded, and nothing is proposed")
        return
    if len(prefixed) == len(bodies) and len(ids) <= MOST_IDS:
        listed = ", ".join(f"{number} ({times:,} times)" for number, times in sorted(ids.items()))
        seen.append(f"all begin with byte 0 and a number, as schema ids of a registry do: {listed}")
        seen.append(f"if they are schema ids, set decode.{part}, decode.schemas and no schema file")
        return
    seen.append(f"{len(sizes):,} different sizes, and no format that can be seen: nothing is proposed")


MOST_NAMES = 200
"""An object with more different names is a map, if its values have one type."""

WHOLE = "the whole"
"""The place of the document itself, in notes."""

_MOMENT = "date-time"

Schema = dict[str, object]


@dataclass(slots=True)
class SampledPlace:
    """The values that were seen at one place of the documents."""

    kinds: Counter[str] = field(default_factory=Counter)
    """Number of values by type of JSON Schema."""
    dates: int = 0
    moments: int = 0
    cut_moments: int = 0
    """Those of the moments with digits below microseconds."""
    properties: dict[str, SampledPlace] = field(default_factory=dict)
    items: SampledPlace | None = None

    def add(self, value: object) -> None:
        """Add a parsed value."""
        self.kinds[kind_of(value)] += 1
        if isinstance(value, dict):
            for name, inner in value.items():
                self.properties.setdefault(name, SampledPlace()).add(inner)
        elif isinstance(value, list):
            for inner in value:
                self.items = self.items or SampledPlace()
                self.items.add(inner)
        elif isinstance(value, str) and not isinstance(value, ExactNumber):
            self.dates += _fits(date_of, value)
            if _fits(moment_of, value):
                self.moments += 1
                self.cut_moments += is_cut_moment(value)

    def merge(self, other: SampledPlace) -> None:
        """Add what was seen at another place."""
        self.kinds += other.kinds
        self.dates += other.dates
        self.moments += other.moments
        self.cut_moments += other.cut_moments
        for name, inner in other.properties.items():
            self.properties.setdefault(name, SampledPlace()).merge(inner)
        if other.items is not None:
            self.items = self.items or SampledPlace()
            self.items.merge(other.items)

    def schema(self, path: str, notes: list[str]) -> Schema | None:
        """Return the schema of the values; None if they have no one type.

        Args:
            path: The place, for notes.
            notes: Gets a line for what is left out, and for what was concluded from the sample.
        """
        name = self._one_type(path, notes)
        if name is None:
            return None
        made: Schema = {"type": [name, "null"] if self.kinds["null"] else name}
        if name == "string":
            self._form(made, path, notes)
        elif name == "array":
            items = None if self.items is None else self.items.schema(f"{path}[]", notes)
            if items is None:
                notes.append(f"{path or WHOLE}: left out, because its items have no type")
                return None
            made["items"] = items
        elif name == "object":
            return self._object(made, path, notes)
        return made

    def _one_type(self, path: str, notes: list[str]) -> str | None:
        kinds = {kind: count for kind, count in self.kinds.items() if kind != "null" and count}
        if kinds.keys() == {"integer", "number"}:
            kinds = {"number": sum(kinds.values())}
        if len(kinds) == 1:
            return next(iter(kinds))
        said = " and ".join(f"{count:,} of type {kind}" for kind, count in sorted(kinds.items()))
        notes.append(f"{path or WHOLE}: left out, because it has {said or 'only null'}")
        return None

    def _form(self, made: Schema, path: str, notes: list[str]) -> None:
        for form, count in ((_MOMENT, self.moments), ("date", self.dates)):
            if count == self.kinds["string"]:
                made["format"] = form
                cut = self._cut() if form == _MOMENT else ""
                notes.append(f"{path}: all {count:,} texts have the form {form}{cut}")

    def _cut(self) -> str:
        verb = "has" if self.cut_moments == 1 else "have"
        said = f"; {self.cut_moments:,} {verb} digits below microseconds, which would be cut"
        return said if self.cut_moments else ""

    def _object(self, made: Schema, path: str, notes: list[str]) -> Schema | None:
        if len(self.properties) > MOST_NAMES:
            merged = SampledPlace()
            for inner in self.properties.values():
                merged.merge(inner)
            values = merged.schema(f"{path}{{}}", notes)
            if values is None:
                return None
            notes.append(f"{path or WHOLE}: a map, because it has {len(self.properties):,} different names")
            return made | {"additionalProperties": values}
        prefix = f"{path}." if path else ""
        named = {name: inner for name, inner in sorted(self.properties.items()) if _can_be_a_column(name)}
        if len(named) < len(self.properties):
            lost = len(self.properties) - len(named)
            notes.append(f"{f'{path}: ' if path else ''}{lost:,} names left out, because no column can have them")
        found = {name: inner.schema(f"{prefix}{name}", notes) for name, inner in named.items()}
        properties = {name: inner for name, inner in found.items() if inner is not None}
        if not properties:
            notes.append(f"{path or WHOLE}: left out, because no property of it has a type")
            return None
        return made | {"properties": properties}


def kind_of(value: object) -> str:
    """Return the type of a parsed value, as JSON Schema names it."""
    if isinstance(value, ExactNumber) or (isinstance(value, int) and not isinstance(value, bool)):
        return "integer" if isinstance(value, int) and _fits(integer_of, value) else "number"
    names = {type(None): "null", bool: "boolean", str: "string", dict: "object", list: "array"}
    return names[type(value)]


def _can_be_a_column(name: str) -> bool:
    try:
        check_name(name, "")
    except InvalidSchemaError:
        return False
    return True


def _fits(convert: Callable[[object], object], value: object) -> bool:
    try:
        convert(value)
    except Undecodable:
        return False
    return True
