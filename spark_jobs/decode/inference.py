"""A proposal for the policy of a topic, from a sample of its published keys and values. Nothing is written.

It says what was seen and how often. Where bytes have several meanings it names them and proposes none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from logcore.values.formats import decoder_of
from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.json.text import parse_json
from logcore.values.undecodable import Undecodable
from logcore.values.wire.prefix import LONG_IDS, glue_framing
from spark_jobs.decode.json_sample import WHOLE, SampledPlace
from spark_jobs.errors import UsageError
from spark_jobs.lake.delta.files.live_files import LiveFile, newest_files
from spark_jobs.lake.segments import archive
from spark_jobs.row_files.published_rows import Span, published_rows

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
        of_json = _of_json(bodies, seen)
        if of_json is not None:
            return Proposal(part, "json", of_json, tuple(seen))
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


def _of_json(bodies: Sequence[bytes], seen: list[str]) -> Mapping[str, object] | None:
    """The schema of JSON objects, or of arrays, if at least a few values are of that kind; else None."""
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
        return None
    notes: list[str] = []
    schema = _most_of(objects, arrays, parts, notes).schema("", notes)
    seen += notes
    if schema is None:
        return None
    return schema if _decoded("json", json.dumps(schema), bodies, seen) else None


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
