"""The options of the data source: those of Spark's Kafka source, and where the logs are.

Source: the guide "Structured Streaming + Kafka Integration", KafkaSourceProvider.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

from logcore.reading.read_options import IsolationLevel, ReadRules
from logcore.segments.filenames import TopicPartition
from spark_jobs.errors import UsageError

Mode = Literal["strict", "permissive"]
Strategy = Literal["error", "latest"]
Offsets = Mapping[TopicPartition, int]
JsonOffsets = dict[str, dict[str, int]]
"""Offsets by topic and partition, as in the JSON of Spark's Kafka source."""
T = TypeVar("T")

LATEST, EARLIEST = -1, -2
"""What offsets of an option mean that are no offsets."""

_CHOICES = ("subscribe", "subscribePattern", "assign")
_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_NAMES = (
    *("path", "paths", "remote", "isolation.level", "mode", *_CHOICES, *_STARTS, *_ENDS),
    *("startingOffsetsByTimestampStrategy", "includeHeaders", "failOnDataLoss", "minPartitions"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
)
_UNUSED = ("groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
"""Options of the Kafka source for the connection to a broker, beside those that begin with `kafka.`."""
_DELAY = re.compile(r"\s*(\d+)\s*(ms|s|m|min|h|d|)\s*")
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends.

    Attributes:
        default: For a log that has no value of its own: an offset, `EARLIEST` or `LATEST`; or a timestamp.
        values: By log; None: every log has the default.
        are_times: The values are timestamps in epoch milliseconds.
        option: The option that says so.
    """

    default: int
    values: Offsets | None = None
    are_times: bool = False
    option: str = ""


@dataclass(frozen=True, slots=True)
class DataSourceOptions:
    """The options of a read.

    Attributes:
        paths: Log directories, partition directories, segment files or lakes.
        remotes: Remote tiers.
        topics: Names of topics; None: not chosen by name.
        pattern: A regular expression that matches the whole name of a topic.
        assigned: Chosen topic partitions.
        start: Where reading begins; None: no option says so.
        end: Where a batch read ends; None: no option says so.
        strategy: What happens if no record has the starting timestamp or a later one.
        include_headers: Whether the default schema has the column `headers`.
        fail_on_data_loss: Whether damage and offsets out of range end a read.
        min_partitions: The least number of splits.
        max_offsets: Most offsets of a micro-batch.
        min_offsets: Least offsets of a micro-batch, unless `max_delay_ms` has passed.
        max_delay_ms: Milliseconds.
        rules: The isolation level.
        mode: `permissive` leaves out damaged bytes and reads on.
        unused: Names of options for a connection to a broker.
    """

    paths: tuple[str, ...]
    remotes: tuple[str, ...] = ()
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: frozenset[TopicPartition] | None = None
    start: Bound | None = None
    end: Bound | None = None
    strategy: Strategy = "error"
    include_headers: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60_000
    rules: ReadRules = field(default_factory=ReadRules)
    mode: Mode = "strict"
    unused: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, str]) -> DataSourceOptions:
        """Read options as Spark hands them over.

        Args:
            given: Values by name; Spark makes names lower-case.

        Raises:
            UsageError: An option is unknown, has a value that it cannot have, or contradicts another one.
        """
        lower = {name.lower(): value for name, value in given.items()}
        unused = tuple(name for name in lower if name.startswith("kafka.") or name in map(str.lower, _UNUSED))
        unknown = sorted(set(lower) - set(unused) - {name.lower() for name in _NAMES})
        if unknown:
            raise UsageError(f"the data source loglake has no option {unknown[0]}. It has {', '.join(_NAMES)}")
        values = {name: lower[name.lower()] for name in _NAMES if name.lower() in lower}
        paths = tuple(_json(values, "paths", list) or ()) + ((values["path"],) if values.get("path") else ())
        if not paths:
            raise UsageError("the option path names a log directory or a lake: .load(DIR)")
        chosen = [name for name in _CHOICES if name in values]
        if len(chosen) > 1:
            raise UsageError(f"the options {' and '.join(chosen)} exclude each other: give one of them")
        topics = values.get("subscribe")
        names = None if topics is None else tuple(name.strip() for name in topics.split(",") if name.strip())
        if names == ():
            raise UsageError("the option subscribe names no topic")
        mode = _one_of(values, "mode", get_args(Mode), "strict")
        fails = _boolean(values, "failOnDataLoss", mode == "strict")
        if fails and mode == "permissive":
            raise UsageError("the options mode=permissive and failOnDataLoss=true contradict each other")
        most, least = _number(values, "maxOffsetsPerTrigger"), _number(values, "minOffsetsPerTrigger")
        if most is not None and (least or 0) > most:
            raise UsageError("the option minOffsetsPerTrigger is greater than maxOffsetsPerTrigger")
        return cls(
            paths,
            tuple(path.strip() for path in values.get("remote", "").split(",") if path.strip()),
            names,
            _pattern(values),
            _assigned(values),
            _bound(values, _STARTS, EARLIEST),
            _bound(values, _ENDS, LATEST),
            _one_of(values, "startingOffsetsByTimestampStrategy", get_args(Strategy), "error"),
            _boolean(values, "includeHeaders", False),
            fails,
            _number(values, "minPartitions"),
            most,
            least,
            _delay(values),
            ReadRules(_one_of(values, "isolation.level", get_args(IsolationLevel), "read_uncommitted")),
            mode,
            unused,
        )

    def for_batch(self) -> DataSourceOptions:
        """Return the options of a batch read. Raises UsageError if they are for a stream."""
        if self.start is not None and LATEST in _places(self.start):
            raise UsageError(
                f"the option {self.start.option} of a batch read cannot be latest: there is nothing to read"
            )
        if self.end is not None and EARLIEST in _places(self.end):
            raise UsageError(f"the option {self.end.option} cannot be earliest")
        return self

    def for_stream(self) -> DataSourceOptions:
        """Return the options of a stream. Raises UsageError if they are for a batch read."""
        if self.end is not None:
            raise UsageError(f"a stream has no option {self.end.option}")
        return self


def json_of(offsets: Offsets) -> JsonOffsets:
    """Return offsets as their JSON."""
    found: JsonOffsets = {}
    for name in sorted(offsets):
        found.setdefault(name.topic, {})[str(name.partition)] = offsets[name]
    return found


def offsets_of(value: object, what: str) -> dict[TopicPartition, int]:
    """The reverse of `json_of`. Raises UsageError if the value has another form."""
    try:
        assert isinstance(value, dict)
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in value.items()
            for partition, offset in partitions.items()
        }
    except (AssertionError, AttributeError, TypeError, ValueError):
        raise UsageError(f'{what} has the form {{"orders": {{"0": 23, "1": -2}}}}') from None


def _places(bound: Bound) -> set[int]:
    return set() if bound.are_times else {bound.default} if bound.values is None else set(bound.values.values())


def _json(values: Mapping[str, str], name: str, kind: type[T]) -> T | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        raise UsageError(f"the option {name} is no JSON {'object' if kind is dict else 'list'}: {text[:80]!r}")
    return value


def _bound(values: Mapping[str, str], names: tuple[str, str, str], usual: int) -> Bound | None:
    timestamp, by_timestamp, offsets = names
    if timestamp in values:
        return Bound(_number(values, timestamp, least=0) or 0, None, True, timestamp)
    if by_timestamp in values:
        return Bound(
            usual, offsets_of(_json(values, by_timestamp, dict), f"the option {by_timestamp}"), True, by_timestamp
        )
    text = values.get(offsets)
    if text is None:
        return None
    if text.strip().lower() in ("earliest", "latest"):
        return Bound(EARLIEST if text.strip().lower() == "earliest" else LATEST, option=offsets)
    found = offsets_of(_json(values, offsets, dict), f"the option {offsets}")
    if any(offset < EARLIEST for offset in found.values()):
        raise UsageError(f"the option {offsets} has an offset below 0; -2 is earliest, -1 is latest")
    return Bound(usual, found, option=offsets)


def _pattern(values: Mapping[str, str]) -> str | None:
    pattern = values.get("subscribePattern")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise UsageError(f"the option subscribePattern is no regular expression: {error}") from None
    return pattern


def _assigned(values: Mapping[str, str]) -> frozenset[TopicPartition] | None:
    given = _json(values, "assign", dict)
    if given is None:
        return None
    try:
        found = frozenset(TopicPartition(topic, int(number)) for topic, numbers in given.items() for number in numbers)
    except (TypeError, ValueError):
        found = frozenset()
    if not found:
        raise UsageError('the option assign has the form {"orders": [0, 1]}')
    return found


def _one_of(values: Mapping[str, str], name: str, allowed: tuple[T, ...], usual: T) -> T:
    given = values.get(name, usual)
    found: dict[object, T] = {each: each for each in allowed}
    if given not in found:
        raise UsageError(f"the option {name} is {' or '.join(map(str, allowed))}, not {given!r}")
    return found[given]


def _boolean(values: Mapping[str, str], name: str, usual: bool) -> bool:
    return _one_of(
        {key: value.lower() for key, value in values.items()}, name, ("true", "false"), str(usual).lower()
    ) == ("true")


def _number(values: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise UsageError(f"the option {name} is a number from {least} on, not {text!r}")
    return number


def _delay(values: Mapping[str, str]) -> int:
    text = values.get("maxTriggerDelay", "15m")
    match = _DELAY.fullmatch(text.lower())
    if match is None:
        raise UsageError(f"the option maxTriggerDelay is a time such as 15m, not {text!r}")
    return int(match[1]) * _MILLISECONDS[match[2]]
