"""Encrypted segments that a lake registered in a bucket: a wrong private key, and a manifest whose key was changed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from logcore.cli.main import main
from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE
from tests import remote_objects
from tests.broker_directory import LogDirectory
from tests.conformance.remote_lakes import with_private_key
from tests.in_process import without_spark
from tests.object_store.gateway import upload
from tests.remote_storage import RemoteStorage, tiered
from tests.spark.cycle import Lake

pytestmark = pytest.mark.object_store


@dataclass
class Registered:
    """A lake that refers to three encrypted segments of a bucket."""

    lake: Lake
    storage: RemoteStorage
    address: str
    capsys: pytest.CaptureFixture[str]

    def change_key(self, number: int) -> None:
        """Write the manifest of a segment again, with another encrypted key."""
        path = self.storage.logs()[number].with_suffix(".rsm-manifest")
        manifest = json.loads(path.read_text())
        key_id, _, wrapped = manifest["encryption"]["dataKey"].rpartition(":")
        changed = bytearray(base64.b64decode(wrapped))
        changed[100] ^= 1
        manifest["encryption"]["dataKey"] = f"{key_id}:{base64.b64encode(changed).decode()}"
        path.write_text(json.dumps(manifest))
        upload(self.storage.path, self.address)

    def verified(self) -> tuple[int, list[dict[str, Any]]]:
        self.capsys.readouterr()
        code = main(["verify", str(self.lake.path), "--format", "jsonl"])
        *findings, _ = (json.loads(line) for line in self.capsys.readouterr().out.splitlines())
        return code, findings


@pytest.fixture
def registered(gateway_bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Registered]:
    source = LogDirectory(tmp_path / "source")
    storage = tiered(source, tmp_path / "remote", layout="chunks", is_encrypted=True)
    upload(storage.path, f"{gateway_bucket}/tier")
    lake = Lake(tmp_path / "lake")
    with with_private_key(tmp_path), without_spark():
        lake.turn(source.path, remote=(f"{gateway_bucket}/tier",), mode="reference")
        assert len(lake.published("orders")) == 50
        yield Registered(lake, storage, f"{gateway_bucket}/tier", capsys)


@pytest.fixture
def with_another_key(registered: Registered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "other.pem").write_bytes(other)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'other.pem'}")


@pytest.mark.usefixtures("with_another_key")
def test_verify_says_that_the_private_key_is_wrong_where_the_manifest_is_as_it_was(registered: Registered) -> None:
    code, findings = registered.verified()
    assert (code, [each["rule"] for each in findings]) == (1, ["archive-not-checked"] * 3)
    for each in findings:
        assert (
            "The manifest has this key as it was registered, so the private key is of another pair" in each["message"]
        )


def test_verify_calls_a_manifest_damaged_if_the_key_that_was_registered_decrypts(registered: Registered) -> None:
    registered.change_key(1)
    code, (finding,) = registered.verified()
    assert (code, finding["rule"], finding["offset"]) == (2, "archive-file-changed", 10)
    assert (
        "dataKey in its manifest is not the one that was registered, which the private key decrypts"
        in (finding["message"])
    )


@pytest.mark.usefixtures("with_another_key")
def test_verify_names_both_causes_where_nothing_shows_which_it_is(registered: Registered) -> None:
    registered.change_key(1)
    code, findings = registered.verified()
    assert (code, [each["rule"] for each in findings]) == (1, ["archive-not-checked"] * 3)
    (both,) = [each["message"] for each in findings if each["offset"] == 10]
    assert "the private key is of another pair, or dataKey in the manifest was changed" in both
    assert "as it was registered" not in both
