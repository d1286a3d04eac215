"""A setting of one topic, written into the text of a policies file: lines that are not concerned stay as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping

import yaml

from spark_jobs.errors import UsageError
from spark_jobs.policies.policies_file import parse_policies

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
