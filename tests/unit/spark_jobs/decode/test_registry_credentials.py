"""Credentials of a schema registry: the forms of their text, where it is read from, and that no error has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.decode.schema_sources import RegistryCredentials
from spark_jobs.errors import UsageError

PLACE = "env:REGISTRY_LOGIN"


def of_text(text: str, monkeypatch: pytest.MonkeyPatch) -> RegistryCredentials:
    monkeypatch.setenv("REGISTRY_LOGIN", text)
    return RegistryCredentials.of(PLACE)


@pytest.mark.parametrize(
    ("text", "header"),
    [
        # RFC 7617, section 2: its own example
        ("Aladdin:open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        # RFC 7617, section 2.1: UTF-8
        ("test:123£", "Basic dGVzdDoxMjPCow=="),
        ("u:p:q\n", "Basic dTpwOnE="),
        (":", "Basic Og=="),
        ("Bearer mF_9.B5f-4.1JqM\r\n", "Bearer mF_9.B5f-4.1JqM"),
    ],
)
def test_a_text_becomes_the_header_that_the_rfcs_describe(text, header, monkeypatch):
    assert of_text(text, monkeypatch).authorization == header


def test_a_file_is_read_as_a_variable_is(tmp_path: Path):
    file = tmp_path / "login"
    file.write_bytes(b"Aladdin:open sesame\n")
    assert RegistryCredentials.of(str(file)).authorization == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="


@pytest.mark.parametrize(
    "text", ["hidden", "Bearer ", "Bearer hid den", "Bearer hidd£n", "u:hidden\nX-Other: y", "u:hidden\x00"]
)
def test_another_text_is_refused_without_showing_it(text, monkeypatch, tmp_path: Path):
    file = tmp_path / "login"
    file.write_text(text)
    with pytest.raises(UsageError, match="USER:PASSWORD nor Bearer TOKEN") as caught:
        RegistryCredentials.of(str(file))
    assert "hid" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "No such file"), (b"u:hidden\xff", "not UTF-8"), (b"u:" + b"h" * 70_000, "65536 bytes")],
)
def test_a_file_that_holds_no_credentials_is_refused_by_its_path(content, says, tmp_path: Path):
    file = tmp_path / "login"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=says) as caught:
        RegistryCredentials.of(str(file))
    assert str(file) in str(caught.value)
    assert "hid" not in str(caught.value)


@pytest.mark.parametrize("set", [False, True])
def test_a_variable_that_is_empty_or_not_set_is_refused_by_its_name(set, monkeypatch):
    monkeypatch.delenv("REGISTRY_LOGIN", raising=False)
    if set:
        monkeypatch.setenv("REGISTRY_LOGIN", "")
    with pytest.raises(UsageError, match="The variable REGISTRY_LOGIN is not set"):
        RegistryCredentials.of(PLACE)


def test_credentials_as_text_have_no_secret(monkeypatch):
    made = of_text("u:hidden", monkeypatch)
    assert repr(made) == str(made) == f"RegistryCredentials(place='{PLACE}')"
