"""Our schemas are those of Kafka's jars, and Kafka's generated classes read and write every message as ours do."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from logcore.messages.kafka_json import message_json
from logcore.messages.known_messages import MessageFamily, messages_of
from logcore.messages.reader import ReadMessage, read_message
from tests.daemons import WAIT_SECONDS
from tests.kafka import distribution, message_schemas
from tests.message_bytes import PackedMessage

pytestmark = pytest.mark.kafka

JAVA = Path(__file__).parent / "java-messages"
SEED = 4404
MESSAGES_OF_A_VERSION = 30


@pytest.fixture(scope="module")
def classes() -> Path:
    """Our Java, compiled against the jars of the schemas; skips, with the reason, where Kafka cannot be run."""
    try:
        sources = {path.name: path.read_text() for path in JAVA.glob("*.java")}
        return distribution.compiled(sources, distribution.MESSAGES)
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka cannot be run here: {missing}")


def test_the_schemas_are_made_from_the_locked_jars(classes: Path) -> None:
    kept = {path.stem: path.read_text() for path in message_schemas.FOLDER.iterdir()}
    assert message_schemas.texts() == kept


def test_kafkas_classes_read_and_write_what_ours_do(classes: Path) -> None:
    chance = random.Random(SEED)
    packed = [
        (schema, version, PackedMessage(schema, version, chance, unknown_tags=number % 3 == 2))
        for family in MessageFamily
        for schema in messages_of(family)
        for version in range(schema.versions.lowest, schema.versions.highest + 1)
        for number in range(MESSAGES_OF_A_VERSION)
    ]
    asked = "".join(f"{schema.name} {version} {message.content.hex()}\n" for schema, version, message in packed)
    command = distribution.command("Messages", version=distribution.MESSAGES, classes=classes)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(packed) == 122 * MESSAGES_OF_A_VERSION
    for (schema, version, message), answer in zip(packed, answers, strict=True):
        left, written, shown = answer.split("\t")
        found = read_message(schema, version, message.content)
        assert isinstance(found, ReadMessage)
        assert (left, written) == ("0", message.content.hex()), (schema.name, version)
        assert json.loads(shown) == message_json(found), (schema.name, version)
