"""What every file of the repository must hold to, whatever its kind."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from tests.conftest import REPOSITORY, SAMPLES

HOST = re.compile(rb"\b(?:[a-z0-9-]+\.)+(?:org|com|net|io|dev)\b(?=[/:'\"\s)>]|$)", re.IGNORECASE)
SCHEME = re.compile(rb"\b(?:https?|ftp|git\+ssh|ssh)://([^\s/'\"`)>\]]+)", re.IGNORECASE)
MAY_BE_NAMED = {b"kafka.apache.org", b"cwiki.apache.org", b"www.w3.org", b"127.0.0.1", b"localhost"}
MAY_BE_NAMED_IN = {
    "LICENSE": {b"www." + b"apache.org"},
    "tests/kafka/distribution.py": {b"ant." + b"apache.org"},  # the name of an XML namespace, which nothing fetches
    # Where alerts go, which the operator sets, and pages of a Dagster in tests.
    "deploy/alert_relay.py": {b"events." + b"pagerduty.com", b"hooks." + b"slack.com"},
    "docs/operations.md": {b"hooks." + b"example.com"},
    "tests/dagster/test_alerts.py": {b"pages"},
    "tests/deploy/test_alert_relay.py": {b"pages"},
    # Names of dialects and of schemas, which nothing fetches.
    "tests/unit/logcore/values/json/registered_schemas.py": {b"json-schema." + b"org", b"shop." + b"example"},
    "tests/unit/logcore/values/json/test_json_schema_forms.py": {b"shop." + b"example"},
    "tests/unit/logcore/values/json/test_json_references.py": {b"["},
}
MACHINE_PATH = re.compile(rb"(?<![\w.$}/>-])/(?:home|root|Users|work|farm|mnt|tmp)/[\w.-]")


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().split("\0") if name and (REPOSITORY / name).is_file()]


def texts() -> list[tuple[str, bytes]]:
    contents = [(name, (REPOSITORY / name).read_bytes()) for name in tracked()]
    return [(name, content) for name, content in contents if b"\0" not in content[:8000]]


def hosts_in(content: bytes) -> set[bytes]:
    """Hosts of addresses, and words that can only be a host's name."""
    found = {match.split(b":")[0].lower() for match in SCHEME.findall(content)}
    return (found | {match.lower() for match in HOST.findall(content) if match.count(b".") >= 2}) - MAY_BE_NAMED


def test_no_file_names_a_place_to_fetch_from():
    """Packages and jars come from wherever the machine is set to take them."""
    found = {name: hosts_in(content) - MAY_BE_NAMED_IN.get(name, set()) for name, content in texts()}
    assert {name: hosts for name, hosts in found.items() if hosts} == {}


@pytest.mark.parametrize("content", [b"https://" + b"a.b/c", b"see repo." + b"example.org/x", b"ftp://" + b"host"])
def test_an_address_is_seen(content):
    assert hosts_in(content)


def test_no_file_knows_the_machine_it_was_written_on():
    assert {name: found for name, content in texts() if (found := MACHINE_PATH.findall(content))} == {}


def test_no_compiled_file_is_tracked():
    """Jars and classes come from a registry; where they lie, `LOGLAKE_HOME` says."""
    assert [name for name in tracked() if name.endswith((".jar", ".class", ".so", ".pyc"))] == []


def test_no_link_is_tracked():
    """A tracked link named like an ignored folder replaces that folder, and all that is in it, when it is merged."""
    listed = subprocess.run(["git", "ls-files", "-s", "-z"], cwd=REPOSITORY, capture_output=True, check=True)
    entries = listed.stdout.decode().split("\0")
    assert [entry for entry in entries if entry.startswith("120000 ")] == []


def test_the_environment_is_ignored_also_where_it_is_a_link():
    assert ".venv" in (REPOSITORY / ".gitignore").read_text().splitlines()


def test_no_file_is_left_half_merged():
    marker = re.compile(rb"^(?:<{7} |>{7} |={7}$)", re.MULTILINE)
    assert [name for name, content in texts() if marker.search(content)] == []


def test_the_lock_names_versions_and_digests_only():
    lines = (REPOSITORY / "requirements.lock").read_text().splitlines()
    entry = re.compile(r"[a-z0-9.-]+==[\w.+!]+( ; [^\\]+?)?( \\)?")
    digest = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
    assert len(lines) > 1000
    assert [line for line in lines if not (entry.fullmatch(line) or digest.fullmatch(line))] == []


def test_the_lock_has_every_package_that_is_requested():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    asked = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["jvm"],
        *project["dependency-groups"]["test"],
        *(line for line in project["dependency-groups"]["dev"] if isinstance(line, str)),
    ]
    names = {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in asked}
    locked = {
        line.partition("==")[0] for line in (REPOSITORY / "requirements.lock").read_text().splitlines() if "==" in line
    }
    assert names - locked == set()


def test_samples_are_small():
    sizes = {path.name: path.stat().st_size for path in SAMPLES.iterdir()}
    assert sum(sizes.values()) <= 3 * 1024 * 1024, sizes
