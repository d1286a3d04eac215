"""Names that somebody else chose, as messages, lines of JSON and ids have them."""

from __future__ import annotations

import json

import pytest

from logcore.cli.main import main
from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.texts import id_part, json_shown, sentences, shown
from tests.terminal_escapes import OBEYED, json_escaped, text_escaped

HOSTILE = "evil\x1b[31m\n\r\x07\x9b31m\u202etxt\u2066\u200b\ufeff\x7f"


def test_no_message_has_what_a_terminal_obeys() -> None:
    for each in (found("unreadable", HOSTILE).message, str(LogError(HOSTILE, file=HOSTILE, advice=HOSTILE))):
        assert not OBEYED & set(each)
        assert text_escaped(HOSTILE) in each


def test_wrong_usage_has_not_either(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["ls", "--forma" + HOSTILE, "x"], ["ls", "x", "--format", HOSTILE], [HOSTILE], ["ls", HOSTILE]):
        main(arguments)
        said = capsys.readouterr()
        assert not (OBEYED - {"\n"}) & set(said.out + said.err)
        assert "evil\\x1b[31m\\n" in said.err


def test_bytes_of_a_path_that_are_not_utf_8_stay_legible() -> None:
    assert shown("a\udcff/b\\n") == "a\\xff/b\\n"


def test_every_character_is_shown_as_itself_or_as_an_escape() -> None:
    text = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x11000))))
    assert shown(text) == text_escaped(text)
    assert json_shown(json.dumps(text, ensure_ascii=False)) == json_escaped(json.dumps(text, ensure_ascii=False))


def test_names_stay_apart_as_parts_of_ids() -> None:
    names = ["a", "A", "=", "=3d", "a/b", "a=2fb", "", " ", "ü", "=c3=bc", "+", "%2b", "~", "a.b_c-d"]
    parts = [id_part(name) for name in names]
    assert len(set(parts)) == len(names)
    assert all(set(part) <= set("=0123456789abcdefghijklmnopqrstuvwxyzA._-") for part in parts)
    assert id_part("AAAAAAAAAAAAAAAAAAAAAA._-") == "AAAAAAAAAAAAAAAAAAAAAA._-"


def test_messages_that_are_joined_are_sentences_of_their_own() -> None:
    assert sentences(["a: it fell", "b: it rose.", "", "Is it so?"]) == "a: it fell. b: it rose. Is it so?"
