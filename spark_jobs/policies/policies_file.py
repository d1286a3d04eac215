"""``policies.yaml``: what may be removed from which topic, how it is ingested and published, and what Dagster starts.

Names are Kafka's own if Kafka has the setting.

::

    lake:                          # for schedules and sensors
      ingest: every 5 min
      nightly: plan                # the nightly schedule shows its plan, and changes nothing
      remote: s3://tier/kafka      # remote storage of tiered topics
    topics:
      "orders-*":                  # a glob over topic names
        cleanup.policy: delete     # delete, compact, or both: "compact,delete" or [compact, delete]
        retention.ms: 7d           # or 604800000
      customers:
        cleanup.policy: compact
        compat: "4.0"              # clean as brokers of 4.0 to 4.3 do; 3.9, 4.0 or 4.4, which is the default
        on_truncate: follow        # a source that diverges from what is published begins a new incarnation
        on_trim: follow            # what the source trimmed from the beginning of the log is removed here too
      "clicks-*":                  # without cleanup.policy nothing is ever removed
        salvage: permissive        # publish after damage too
        active.min.growth: 1MiB
      "payments-*":
        from: cluster              # settings without a line here are those that the cluster said

The first pattern that matches a topic is used alone, so put narrow patterns before wide ones. A topic without a
matching pattern has no policy and is never touched. An internal topic (``__…``) is matched only by a pattern that
itself begins with ``__``. Any setting about removal or segments requires ``cleanup.policy``. A policy that only
concerns ingest and publishing may leave it out, and then nothing is ever removed. A missing setting has Kafka's
default, with one exception: ``retention.ms`` is unlimited, not seven days, because nothing is deleted by default.

This module reads and checks the file. Other modules apply a policy (``logcore.logs.retention.retention``, …).

Editors complete and check the file by its JSON schema (draft 2020-12), which is made from the declared settings. The
reader is stricter in two places: numbers must be in plain digits, and a policy that removes something must state
``cleanup.policy``. An edit of one setting leaves the lines that it does not concern as they are.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from logcore.reading.nearest_names import no_such_topic
from logcore.topics.topic_settings import TopicSettings
from spark_jobs.errors import UsageError
from spark_jobs.policies.compression import DEFAULT, ZSTD, Compression
from spark_jobs.policies.lake_settings import LAKE_SETTINGS
from spark_jobs.policies.policy_values import (
    TIMES,
    VARIABLE_PREFIX,
    FilePath,
    Name,
    NameList,
    OneOf,
    Pace,
    PlaceList,
    Ratio,
    Setting,
    SomeOf,
    TopicOrAddress,
    VariableOrPath,
    WebAddress,
    WholeNumber,
    is_address,
    unit_names,
)
from spark_jobs.policies.topic_policies import LakePolicy, TopicPolicy
from spark_jobs.policies.topic_settings import CLEANUP_POLICIES, SETTINGS

_REMOVE_NOTHING = frozenset(setting.field for setting in SETTINGS.values() if setting.removes_nothing)


@dataclass(frozen=True, slots=True)
class Policies:
    """All policies of a file, in its order."""

    topics: tuple[TopicPolicy, ...] = ()
    lake: LakePolicy = field(default_factory=LakePolicy)
    stated: frozenset[str] = frozenset()
    """Names of the lake's settings that the file states."""
    cluster: Mapping[str, TopicSettings] = field(default_factory=dict)
    """What the cluster said about its topics, by name, for policies with ``from: cluster``."""
    path: str | None = None
    """The file; None: no file was named."""

    @property
    def are_from_cluster(self) -> bool:
        """Whether a policy takes settings from the cluster."""
        return any(policy.settings_from is not None for policy in self.topics)

    def idle_notes(self, topics: Collection[str]) -> list[str]:
        """Return a sentence for each pattern that decides about none of these topics.

        It matches none: the sentence has the nearest names. Or earlier patterns match each that it matches. Without
        topics only patterns that name one topic are looked at.

        It is no warning: one file may be for several lakes, and for topics that come later.
        """
        notes = []
        for at, policy in enumerate(self.topics):
            pattern = policy.pattern
            if topics and not any(map(policy.matches, topics)):
                notes.append(no_such_topic(pattern, topics))
                continue
            names = topics or ([] if any(sign in pattern for sign in "*?[") else [pattern])
            before = self.topics[:at]
            deciding = [next((p.pattern for p in before if p.matches(t)), None) for t in names if policy.matches(t)]
            if deciding and None not in deciding:
                earlier = " and ".join(map(repr, dict.fromkeys(deciding)))
                notes.append(f"{pattern!r} decides nothing: {earlier} before it matches its topics. Put it first.")
        return [f"note: {self.path}: the pattern {note}" for note in notes]

    def unset_notes(self) -> list[str]:
        """Return a sentence if the environment variable with the webhook's address is not set in this process.

        It is no warning: the process that posts may have another environment.
        """
        webhook = self.lake.alerts_webhook or ""
        name = webhook.removeprefix(VARIABLE_PREFIX)
        if name == webhook or os.environ.get(name):
            return []
        said = f"alerts.webhook is in the environment variable {name}, which is not set here"
        return [f"note: {self.path}: {said}. Without it the sensor alerts posts nothing."]

    def for_topic(self, topic: str) -> TopicPolicy | None:
        """Return the first policy that matches, with what the cluster said about the topic that has the name.

        What removes or compacts records of a log takes :meth:`for_log`.

        Returns:
            The policy; None: the topic is never touched.
        """
        said = self.cluster.get(topic)
        return self.for_log(topic, None if said is None else said.topic_id)

    def for_log(self, topic: str, topic_id: str | None) -> TopicPolicy | None:
        """Return the first policy that matches, with what the cluster said; None: the topic is never touched.

        Args:
            topic: The name.
            topic_id: Of the log: what the cluster said about another topic of this name does not count for it. None:
                not known.
        """
        policy = next((policy for policy in self.topics if policy.matches(topic)), None)
        return None if policy is None else policy.with_cluster(self.cluster.get(topic), topic_id)

    def accepts_gone(self, topic: str) -> bool:
        """Whether ``on_gone`` accepts that a log directory no longer has a log of a topic."""
        policy = self.for_topic(topic)
        return policy is not None and policy.on_gone == "accept"

    def compression_of(self, topic: str | None) -> Compression:
        """How the files of a topic's records are compressed; None: a table without topics."""
        policy = None if topic is None else self.for_topic(topic)
        return DEFAULT if policy is None else policy.compression


NO_POLICIES = Policies()


def read_policies(path: str | None) -> Policies:
    """Return the policies of a file; none if no file is named.

    Raises:
        UsageError: The file can't be read or is invalid; the text has a line for each mistake, with its line and
            column.
    """
    if path is None:
        return NO_POLICIES
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        advice = "Put the file back, or run the lake with `--policies FILE`, which registers another one."
        raise UsageError(f"The policies {path} can't be read: {error.strerror}. {advice}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"The policies {path} are not UTF-8 text (byte {error.start}).") from error
    return parse_policies(text, path)


def stated_webhook(path: str | None) -> str | None:
    """Return `alerts.webhook` of a policies file in which other lines may have mistakes; None: not exactly one."""
    try:
        with open(path or "", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    parts: Iterable[str] = (text,)
    try:
        yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        parts = _lines_of_lake(text)
    found: list[str] = []
    for part in parts:
        reader = _Reader(path or "")
        with contextlib.suppress(UsageError):
            reader.read(part)
        if reader.repeated & {"lake", "alerts.webhook"}:
            return None
        if "alerts_webhook" in reader.lake:
            found.append(str(reader.lake["alerts_webhook"]))
    return found[0] if len(found) == 1 else None


def _lines_of_lake(text: str) -> Iterator[str]:
    """Each line of the section `lake` as a file of its own: the text is no YAML."""
    is_of_lake = False
    for line in text.splitlines():
        if line[:1].strip() not in ("", "#"):  # it begins a section
            is_of_lake = line.startswith("lake:")
            if is_of_lake:
                yield line
        elif is_of_lake:
            yield f"lake:\n {line.strip()}"


def parse_policies(text: str, name: str = "policies.yaml") -> Policies:
    """Return the policies in a text; ``name`` is its name in errors.

    Raises:
        UsageError: See :func:`read_policies`.
    """
    return _Reader(name).read(text)


class _Mistake(Exception):
    """A part of the file is not used; its mistake is noted."""


class _Reader:
    """Reads YAML nodes instead of values: a node has its line, and a number's text is as written. All mistakes are
    noted, then refused together.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._mistakes: list[str] = []
        self.lake: dict[str, object] = {}
        """Settings of the lake by field, without those that have a mistake."""
        self.repeated: set[str] = set()
        """Keys that a mapping has twice."""

    def read(self, text: str) -> Policies:
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "unknown place"
            why = error.problem or error.context
            raise UsageError(f"{self._name}, {place}: not YAML: {why}.") from None  # it quotes the file
        except (yaml.YAMLError, RecursionError) as error:
            raise UsageError(f"{self._name}: not YAML: {error}.") from None
        if root is None:
            return Policies(path=self._name)
        policies: list[TopicPolicy] = []
        for key, value in self._entries(root, "the file"):
            if key.value == "topics":
                for pattern, body in self._entries(value, "'topics'"):
                    with contextlib.suppress(_Mistake):
                        policies.append(self._policy(pattern, body))
            elif key.value == "lake":
                self.lake |= self._values(value, "'lake'", LAKE_SETTINGS, "the lake")
            else:
                self._note(key, f"{_quoted(key.value)} is not known here; the file has the entries 'topics' and 'lake'")
        if self._mistakes:
            raise UsageError("\n".join(self._mistakes))
        names = {setting.field: name for name, setting in LAKE_SETTINGS.items()}
        stated = frozenset(names[field] for field in self.lake)
        return Policies(tuple(policies), LakePolicy(**self.lake), stated, path=self._name)  # type: ignore[arg-type]

    def _policy(self, pattern: yaml.ScalarNode, body: yaml.Node) -> TopicPolicy:
        if not re.fullmatch(r"[A-Za-z0-9._\-*?\[\]!]+", pattern.value):
            self._note(
                pattern, f"{_quoted(pattern.value)} matches no topic: names have letters, digits, '.', '_' and '-'"
            )
        noted = len(self._mistakes)
        fields = self._values(body, f"the policy of {_quoted(pattern.value)}", SETTINGS, "a policy")
        stated = {SETTINGS[key.value].field for key, _ in getattr(body, "value", ()) if key.value in SETTINGS}
        is_of_removal = stated - _REMOVE_NOTHING or (not stated and len(self._mistakes) == noted)
        if is_of_removal and not stated & {"cleanup_policy", "settings_from"}:
            self._note(pattern, f"the policy of {_quoted(pattern.value)} does not state its cleanup.policy")
        if len(self._mistakes) > noted:
            raise _Mistake
        if fields.get("parquet_codec", ZSTD) != ZSTD and "parquet_level" in fields:
            self._refuse(pattern, f"parquet.level is for {ZSTD}; parquet.codec is {fields['parquet_codec']}")
        if "decode_schemas_credentials" in fields and not is_address(str(fields.get("decode_schemas", ""))):
            self._refuse(pattern, "decode.schemas.credentials is for the address of a registry in decode.schemas")
        lines = tuple(
            (SETTINGS[key.value].field, key.start_mark.line + 1)
            for key, _ in getattr(body, "value", ())
            if key.value in SETTINGS
        )
        fields.setdefault("cleanup_policy", ())
        return TopicPolicy(pattern.value, lines=lines, **fields)  # type: ignore[arg-type]

    def _values(self, body: yaml.Node, what: str, settings: Mapping[str, Setting], whose: str) -> dict[str, object]:
        """The values of a mapping by field; mistakes are noted and left out."""
        fields: dict[str, object] = {}
        for key, value in self._entries(body, what):
            setting = settings.get(key.value)
            if setting is None:
                near = difflib.get_close_matches(key.value.partition("://")[0], settings, 1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(settings)}"
                self._note(key, f"{_quoted(key.value)} is not a setting of {whose}; {hint}")
                continue
            with contextlib.suppress(_Mistake):
                fields[setting.field] = self._value(setting, value)
        return fields

    def _value(self, setting: Setting, node: yaml.Node) -> object:
        match setting.values:
            case SomeOf():
                return self._cleanup_policy(node)
            case OneOf(words):
                return self._choice(setting.name, node, words)
            case FilePath():
                return self._path(setting.name, node)
            case VariableOrPath() as values:
                return self._place(setting.name, node, values)
            case NameList():
                return self._names(setting.name, node)
            case PlaceList():
                return self._places(setting.name, node)
            case WholeNumber() | Ratio() | Pace() | Name() as values:
                return self._number(setting.name, node, values.parse)
            case WebAddress() | TopicOrAddress() as values:
                return self._secret(setting.name, node, values)

    def _path(self, name: str, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or _is_null(node):
            self._refuse(node, f"{name} must be one path")
        return os.path.join(os.path.dirname(self._name), node.value)

    def _place(self, name: str, node: yaml.Node, values: VariableOrPath) -> str:
        path = self._path(name, node)
        text = self._secret(name, node, values)
        return text if text.startswith(VARIABLE_PREFIX) else path

    def _secret(self, name: str, node: yaml.Node, values: WebAddress | TopicOrAddress | VariableOrPath) -> str:
        """A text that may hold a secret. No error shows it."""
        if not isinstance(node, yaml.ScalarNode):
            self._refuse(node, f"{name} must be one text")
        try:
            return values.parse(node.value)
        except ValueError as error:
            self._refuse(node, f"{name} is {error}")

    def _choice(self, name: str, node: yaml.Node, words: tuple[str, ...]) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.value not in words:
            said = _quoted(node.value) if isinstance(node, yaml.ScalarNode) else "no single word"
            self._refuse(node, f"{name} is {said}; known are {', '.join(words)}")
        return str(node.value)

    def _cleanup_policy(self, node: yaml.Node) -> tuple[str, ...]:
        if isinstance(node, yaml.SequenceNode):
            words = [item.value if isinstance(item, yaml.ScalarNode) else "" for item in node.value]
        elif isinstance(node, yaml.ScalarNode) and not _is_null(node):
            words = [word.strip() for word in node.value.split(",")] if node.value.strip() else []
        else:
            self._refuse(node, "cleanup.policy must be delete, compact, or both")
        for word in words:
            if word not in CLEANUP_POLICIES:
                self._refuse(node, f"cleanup.policy has {_quoted(word)}; known are {', '.join(CLEANUP_POLICIES)}")
        return tuple(sorted(set(words)))

    def _names(self, name: str, node: yaml.Node) -> tuple[str, ...]:
        if isinstance(node, yaml.ScalarNode):
            texts = [word.strip() for word in node.value.split(",")]
        elif isinstance(node, yaml.SequenceNode):
            texts = [item.value if isinstance(item, yaml.ScalarNode) else "" for item in node.value]
        else:
            texts = []
        try:
            found = [Name().parse(text) for text in texts]
        except ValueError:
            found = []
        if not found or len(set(found)) < len(found):
            self._refuse(node, f"{name} must be names without spaces, each once, as a list or separated by commas")
        return tuple(found)

    def _places(self, name: str, node: yaml.Node) -> tuple[str, ...]:
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        places = [each.value for each in nodes if isinstance(each, yaml.ScalarNode) and not _is_null(each)]
        if not places or len(places) < len(nodes) or len(set(places)) < len(places):
            self._refuse(node, f"{name} must be directories or s3:// prefixes, each once, as a list or one")
        beside = os.path.dirname(os.path.abspath(self._name))
        return tuple(place if "://" in place else os.path.normpath(os.path.join(beside, place)) for place in places)

    def _number(self, name: str, node: yaml.Node, convert: Callable[[str], str | float]) -> str | float:
        if not isinstance(node, yaml.ScalarNode):
            self._refuse(node, f"{name} must be one number")
        try:
            return convert(node.value)
        except ValueError as error:
            self._refuse(node, f"{name} is {_quoted(node.value)}: {error}")

    def _entries(self, node: yaml.Node, what: str) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            self._note(node, f"{what} must be a mapping")
            return
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._note(key, f"{what} has a key that is no word")
            elif key.value in seen:
                self.repeated.add(key.value)
                self._note(key, f"{what} has {_quoted(key.value)} twice")
            else:
                seen.add(key.value)
                yield key, value

    def _note(self, node: yaml.Node, why: str) -> None:
        mark = node.start_mark
        self._mistakes.append(f"{self._name}, line {mark.line + 1}, column {mark.column + 1}: {why}.")

    def _refuse(self, node: yaml.Node, why: str) -> NoReturn:
        self._note(node, why)
        raise _Mistake


def _quoted(text: str) -> str:
    """A text of the file for an error. An address is not shown: it may hold a secret."""
    return "an address" if "://" in text else repr(text)


def _is_null(node: yaml.ScalarNode) -> bool:
    return node.style is None and node.value in ("", "~", "null", "Null", "NULL")


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


_TOPICS = "topics"


def with_settings(text: str, topic: str, settings: Mapping[str, str], name: str) -> str:
    """Return the text of a policies file in which a topic has some settings.

    The first pattern that matches a topic decides alone. So a topic that a glob matches gets an entry of its own before
    all others, with the settings of the glob.

    Args:
        text: The file as it is; it may be empty.
        topic: The exact name of the topic.
        settings: Values by name, as they are written.
        name: Of the file, for errors.

    Raises:
        UsageError: The file, a setting or its value cannot be used; or `topics` is not written as a block.
    """
    before = parse_policies(text, name)
    lines = text.splitlines()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    topics = (
        next((v for k, v in root.value if k.value == _TOPICS), None) if isinstance(root, yaml.MappingNode) else None
    )
    stated = [f"{setting}: {value}" for setting, value in settings.items()]
    if topics is None or not topics.value:
        kept = [line for line in lines if line.split("#")[0].split(":")[0].strip() != _TOPICS]
        lines = [*kept, f"{_TOPICS}:", *_entry(topic, stated, "  ")]
    else:
        if topics.flow_style or any(body.flow_style for _, body in topics.value):
            raise UsageError(
                f"{name}: write the patterns of `topics` as lines of their own, then run the command again."
            )
        matching = next((policy.pattern for policy in before.topics if policy.matches(topic)), None)
        indent = " " * topics.start_mark.column
        for pattern, body in topics.value:
            if pattern.value == matching:
                kept = [
                    line[key.start_mark.column :]
                    for key, value in body.value
                    if key.value not in settings
                    for line in lines[key.start_mark.line : _last_line(value) + 1]
                ]
                if matching == topic:
                    lines[pattern.start_mark.line : _last_line(body) + 1] = _entry(topic, [*kept, *stated], indent)
                    break
                stated = [*kept, *stated]
        if matching != topic:
            first = topics.value[0][0].start_mark.line
            lines[first:first] = _entry(topic, stated, indent)
    changed = "\n".join(lines) + "\n"
    parse_policies(changed, name)
    return changed


def _entry(topic: str, stated: list[str], indent: str) -> list[str]:
    return [f"{indent}{json.dumps(topic)}:", *(f"{indent}  {line}" for line in stated)]


def _last_line(node: yaml.Node) -> int:
    """The line on which the text of a node ends. The end of a block is where the next token begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.line)
