"""A joined log whose remote segments are stored in chunks: what damaged, lost and false objects lead to."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import zstandard
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE
from tests import handmade, remote_objects
from tests.tiered_log import Said, TieredLog, run

CHOSEN = ("--topic", "orders")


class Stored:
    """Three remote segments, 0 to 6, 7 to 11 and 12 to 17, of which tests change the second; local from 18 on."""

    def __init__(self, folder: Path, **options: bool) -> None:
        self.log = TieredLog(folder)
        self.log.append(3, 4, 5, 6, 7)
        self.log.copy(0, 7)
        self.second = self.log.copy(7, 12)
        self.log.copy(12, 18)
        self.log.write(18)
        self.objects = folder / "objects"
        remote_objects.as_aiven_stores(self.log.remote, self.objects, chunk_size=150, **options)

    def object(self, suffix: str) -> Path:
        (path,) = self.objects.rglob(f"{self.second.log.stem}{suffix}")
        return path

    def run(self, command: str, *more: str) -> Said:
        return run(command, self.log, *more, *CHOSEN, remotes=[self.objects])


@pytest.fixture
def encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    return Stored(tmp_path, compressed=True, is_encrypted=True)


@pytest.fixture
def plain(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


@pytest.fixture
def compressed(tmp_path: Path) -> Stored:
    return Stored(tmp_path, compressed=True)


def refuse_second(said: Said, reason: str) -> None:
    """The second segment is not used, so offsets below the third stay remote."""
    assert said.ranges == [("remote", 0, 12), ("present", 12, 25)]
    assert said.code == 3
    assert reason in said.errors


def without_second(said: Said, stored: Stored, reason: str) -> None:
    """Records of the others are there, and the second one is reported."""
    assert said.rows == [row for row in stored.log.expected(0) if not 7 <= row[0] < 12]
    assert said.code == 3
    assert reason in said.errors


def test_whole_objects_give_the_log(encrypted: Stored) -> None:
    said = encrypted.run("dump")
    assert (said.rows, said.code, said.errors) == (encrypted.log.expected(0), 0, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("originalFileSize", 1),
        ("originalFileSize", 2**31 - 1),
        ("originalChunkSize", 2**30 - 1),
        ("transformedChunkSize", 10),
    ],
)
def test_a_manifest_that_lies_about_sizes_is_refused(plain: Stored, name: str, value: int) -> None:
    fields = json.loads(plain.object(".rsm-manifest").read_text())
    fields["chunkIndex"][name] = value
    plain.object(".rsm-manifest").write_text(json.dumps(fields))
    refuse_second(plain.run("ledger"), plain.second.text)


def test_a_manifest_of_another_size_than_its_object_is_refused(plain: Stored) -> None:
    path = plain.object(".log")
    path.write_bytes(path.read_bytes()[:-1])
    refuse_second(plain.run("ledger"), "stored bytes, the object has")


def test_a_chunk_that_does_not_decrypt_gives_no_record(encrypted: Stored) -> None:
    path = encrypted.object(".log")
    path.write_bytes(handmade.flip(path.read_bytes(), 40))
    without_second(encrypted.run("dump"), encrypted, "chunk 0 does not decrypt")


def test_with_another_key_of_the_same_name_nothing_is_decrypted(
    encrypted: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "other.pem").write_bytes(other)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'other.pem'}")
    said = encrypted.run("dump")
    assert (said.rows, said.code) == (encrypted.log.expected(18), 3)
    assert "'static-key-id' does not decrypt the key of the segment" in said.errors
    assert base64.b64encode(remote_objects.AES_KEY).decode() not in said.errors


def test_a_chunk_that_expands_without_end_gives_no_record(compressed: Stored) -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 20))
    rest = [zstandard.ZstdCompressor().compress(bytes(10))] * (-(-self_size(compressed) // 150) - 1)
    fields = json.loads(compressed.object(".rsm-manifest").read_text())
    sizes = remote_objects.size_list([len(bomb), *map(len, rest)])
    fields["chunkIndex"]["transformedChunks"] = base64.b64encode(zstandard.ZstdCompressor().compress(sizes)).decode()
    compressed.object(".rsm-manifest").write_text(json.dumps(fields))
    compressed.object(".log").write_bytes(b"".join([bomb, *rest]))
    said = compressed.run("dump")
    without_second(said, compressed, "chunk 0")


def self_size(stored: Stored) -> int:
    """Bytes of the second segment."""
    return stored.second.log.stat().st_size


def test_an_index_past_the_end_of_its_object_is_a_finding_and_hides_no_record(plain: Stored) -> None:
    plain.object(".indexes").write_bytes(b"")
    assert plain.run("dump").rows == plain.log.expected(0)
    said = plain.run("verify")
    assert said.code == 3
    assert [each for each in said.lines if "describes an index up to byte" in str(each.get("message"))]


@pytest.mark.parametrize("suffix", [".log", ".rsm-manifest"])
def test_an_object_that_vanishes_between_list_and_read_is_a_finding(
    plain: Stored, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logcore.reading import joined_logs

    real = joined_logs.remote_inventory

    def vanishing(*arguments: object) -> object:
        listed = real(*arguments)
        plain.object(suffix).unlink()
        return listed

    monkeypatch.setattr(joined_logs, "remote_inventory", vanishing)
    said = plain.run("dump")
    assert [row for row in said.rows if row[0] >= 12] == plain.log.expected(12)
    assert said.code == 3
    assert plain.second.text in said.errors


def test_segments_of_an_iceberg_table_are_refused_by_name(plain: Stored) -> None:
    puffin = plain.objects / "warehouse" / "orders" / "metadata" / f"{plain.second.text}.puffin"
    puffin.parent.mkdir(parents=True)
    for suffix in (".log", ".indexes", ".rsm-manifest"):
        plain.object(suffix).unlink()
    puffin.write_bytes(b"PFA1")
    said = plain.run("ledger")
    assert said.ranges[0] == ("remote", 0, 12)
    assert "segment.format: iceberg" in said.errors
    assert said.code == 3
