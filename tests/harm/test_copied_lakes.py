"""A lake that was copied, unpacked or restored goes on: other times of its files are a reason to read them, no harm.

The oracle is the original: its rows, ledger, findings and exit codes. Whether a variant is harmed is known from how it
was made.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.run.run_request import RunRequest
from tests import sampling
from tests.broker_directory import LogDirectory
from tests.harm.small_lake import SmallLake

VARIANTS = int(os.environ.get("LOGLAKE_TEST_VARIANTS", "40"))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    """Three archived segments of two logs, published. Shared: never run it again."""
    folder = tmp_path_factory.mktemp("original")
    source = LogDirectory(folder / "source")
    logs = {f"orders-{number}": source.partition(f"orders-{number}") for number in range(2)}
    for log in logs.values():
        log.append(12)
    logs["orders-0"].roll()
    logs["orders-0"].append(5)
    source.high_watermarks(orders_0=17, orders_1=12)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LOGLAKE_HOME", str(folder / "home"))
        lake = SmallLake(folder / "lake", RunRequest((str(source.path),)))
        assert lake.run().code == 0
        assert lake.verify().code == 0
        yield lake


def by_cp(lake: Path, copy: Path) -> None:
    subprocess.run(["cp", "-r", lake, copy], check=True)


def by_tarfile(lake: Path, copy: Path) -> None:
    with tarfile.open(copy.with_suffix(".tar"), "w") as file:
        file.add(lake, "lake")
    with tarfile.open(copy.with_suffix(".tar")) as file:
        file.extractall(copy.with_suffix(".unpacked"))
    copy.with_suffix(".unpacked").joinpath("lake").rename(copy)


def by_zip(lake: Path, copy: Path) -> None:
    """Times with two seconds, which `unzip` sets and Python does not."""
    with zipfile.ZipFile(copy.with_suffix(".zip"), "w") as file:
        for path in lake.rglob("*"):
            file.write(path, path.relative_to(lake))
    with zipfile.ZipFile(copy.with_suffix(".zip")) as file:
        file.extractall(copy)
    with_times(copy, lambda ns: ns - ns % 2_000_000_000)


def with_times(copy: Path, time: Callable[[int], int]) -> None:
    for path in copy.rglob("*"):
        if path.is_file():
            ns = time(path.stat().st_mtime_ns)
            os.utime(path, ns=(ns, ns))


def copied_with(time: Callable[[int], int]) -> Callable[[Path, Path], None]:
    def copy(lake: Path, to: Path) -> None:
        shutil.copytree(lake, to)
        with_times(to, time)

    return copy


WAYS: dict[str, Callable[[Path, Path], None]] = {
    "cp -r": by_cp,
    "Python's tarfile": by_tarfile,
    "zip": by_zip,
    "rsync with whole seconds": copied_with(lambda ns: ns - ns % 1_000_000_000),
    "a file system without times": copied_with(lambda _: 0),
    "a clock that was wrong": copied_with(lambda ns: ns + 10**18),
}


def archived(lake: SmallLake) -> list[Path]:
    return sorted((lake.path / "archive").rglob("*.log"))


@pytest.mark.parametrize("way", WAYS)
def test_a_copied_lake_goes_on_like_the_original(way: str, original: SmallLake, tmp_path: Path) -> None:
    WAYS[way](original.path, tmp_path / "copy")
    copy = SmallLake(tmp_path / "copy", original.request)
    assert copy.verify().code == 0
    first = copy.run()
    assert first.code == 0, first.said
    assert copy.facts() == original.facts()
    assert copy.run().code == 0
    assert copy.verify().code == 0


def test_bytes_of_a_copied_lake_are_read_once(
    original: SmallLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.lake.delta.state import archive_check
    from spark_jobs.lake.store import mapped_file

    read: list[str] = []
    real = mapped_file.digest_of

    def counted(path: str, start: int, end: int) -> str:
        read.append(path)
        return real(path, start, end)

    monkeypatch.setattr(mapped_file, "digest_of", counted)
    by_cp(original.path, tmp_path / "copy")
    copy = SmallLake(tmp_path / "copy", original.request)
    for _ in range(3):
        archive_check._digest.cache_clear()  # as in another process
        assert copy.run().code == 0
    assert sorted(read) == [str(path) for path in archived(copy)]


@pytest.mark.parametrize("is_known", [False, True], ids=["at the first look", "after a run on the copy"])
def test_other_bytes_of_a_copied_lake_are_harm_until_they_are_put_back(
    is_known: bool, original: SmallLake, tmp_path: Path
) -> None:
    by_cp(original.path, tmp_path / "copy")
    copy = SmallLake(tmp_path / "copy", original.request)
    if is_known:
        assert copy.run().code == 0
    harmed, right = archived(copy)[0], archived(copy)[0].read_bytes()
    harmed.write_bytes(bytes(len(right)))
    os.utime(harmed, ns=(1, 1))
    for _ in range(2):
        done = copy.run()
        assert done.code == 2
        assert "archive-file-changed" in done.said
    harmed.write_bytes(right)
    assert copy.run().code == 0
    assert copy.facts() == original.facts()


def variant(seed: int, lake: SmallLake) -> set[Path]:
    """Give files of a copy other times, and some other bytes; returns those with other bytes and times."""
    chance = random.Random(f"{sampling.SEED} copied {seed}")
    harmed = set()
    for path in archived(lake):
        ns, other = path.stat().st_mtime_ns, chance.randrange(1, 1 << 61)
        ns = chance.choice([ns, ns - ns % 1_000_000, ns - ns % 2_000_000_000, ns - 1_000_000, 0, other])
        if chance.random() < 0.25:
            data = bytearray(path.read_bytes())
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(bytes(data))
            ns = other
            harmed.add(path)
        os.utime(path, ns=(ns, ns))
    return harmed


@pytest.mark.long
def test_any_times_change_nothing_and_any_changed_byte_is_found(original: SmallLake, tmp_path: Path) -> None:
    facts = original.facts()
    for seed in range(VARIANTS):
        copy = original.copied(tmp_path / f"copy-{seed}")
        harmed = variant(seed, copy)
        for _ in range(2):
            done = copy.run()
            assert done.code == (2 if harmed else 0), (sampling.SEED, seed, done.said)
            named = {path for path in archived(copy) if str(path.relative_to(copy.path)) in done.said}
            assert named == harmed, (sampling.SEED, seed, done.said)
        if not harmed:
            assert copy.facts() == facts
        shutil.rmtree(copy.path)
