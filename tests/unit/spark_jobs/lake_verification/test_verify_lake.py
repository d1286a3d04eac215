"""`loglake verify LAKE`: a healthy lake is proved whole, and what was not looked at has not passed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.pseudo_terminal import on_terminal
from tests.spark.cycle import Lake
from tests.unit.spark_jobs.lake_verification.harmed_files import ORDERS_ROWS, PAYMENTS_ROWS, files_of, flip, segments_of

pytestmark = pytest.mark.slow


def test_a_healthy_lake_is_clean_and_every_row_is_proved_by_its_digest(lake, verified):
    done = verified(lake)
    assert (done.code, done.findings, done.errors) == (0, [], "")
    archived = sum(path.stat().st_size for path in (lake.path / "archive").rglob("*.log"))
    assert done.summary["archive_bytes"] == archived
    assert done.summary["archive_files"] == len(list((lake.path / "archive").rglob("*.log")))
    assert done.summary["rows"] == done.summary["rows_by_digest"] == ORDERS_ROWS + PAYMENTS_ROWS
    assert (done.summary["rows_by_archive"], done.summary["rows_not_provable"]) == (0, 0)
    assert done.summary["logs"] == 2
    live = sum(len(files_of(lake, path.name)) for path in (lake.path / "tables").iterdir() if path.name != "records")
    assert done.summary["table_files"] == live + len(files_of(lake)) + len(files_of(lake, topic="payments"))
    assert done.summary["findings"] == {"info": 0, "warning": 0, "error": 0}


@pytest.mark.long
def test_every_bundled_sample_becomes_a_lake_that_is_proved(sample, tmp_path, verified):
    for name in ("codecs-v2-4.3.1", "transactions-4.4.0", "timestamps-v2-4.4.0", "damaged"):
        made = Lake(tmp_path / name)
        with without_spark():
            made.turn(sample(name).logdir)
        done = verified(made)
        assert (done.code, done.findings) == (0, []), name
        assert done.summary["rows"] == done.summary["rows_by_digest"] == len(made.rows("records"))


@pytest.mark.parametrize("start", [0, 40])
def test_a_lake_of_a_topic_without_a_record_misses_no_table(start: int, tmp_path: Path, verified) -> None:
    source = LogDirectory(tmp_path / "source")
    (source.partition("orders-0").path / f"{start:020d}.log").touch()
    source.checkpoint("log-start", orders_0=start)
    source.high_watermarks(orders_0=start)
    lake = Lake(tmp_path / "lake")
    with without_spark():
        lake.turn(source.path)
    assert verified(lake).code == 0


def test_another_cluster_in_the_description_of_the_lake_is_named(lake, verified):
    described = lake.path / "lake.json"
    described.write_text(json.dumps(json.loads(described.read_text()) | {"cluster": "another"}))
    done = verified(lake)
    assert done.code == 2
    assert [finding["rule"] for finding in done.findings] == ["lake-identity-differs"]


def test_verify_writes_nothing_into_the_lake(lake, verified):
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in lake.path.rglob("*") if path.is_file()}
    verified(lake)
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in lake.path.rglob("*") if p.is_file()} == before


# what was not looked at has not passed


def test_an_empty_lake_or_none_is_exit_3(tmp_path, verified):
    (tmp_path / "lake.json").write_text('{"layout": 1, "cluster": null}')
    done = verified(tmp_path)
    assert (done.code, done.summary) == (3, {})
    assert "empty" in done.errors


def test_a_newer_layout_is_refused(lake, verified):
    (lake.path / "lake.json").write_text('{"layout": 99, "cluster": null}')
    done = verified(lake)
    assert done.code == 3
    assert "layout 99" in done.errors


def test_a_choice_that_matches_nothing_is_exit_3(lake, verified):
    done = verified(lake, "--topic", "ordrs")
    assert done.code == 3
    assert "--topic 'ordrs' matches no topic; the nearest names are orders." in done.errors


def test_a_topic_can_be_chosen(lake, verified):
    done = verified(lake, "--topic", "pay*")
    assert (done.code, done.summary["logs"], done.summary["rows"]) == (0, 1, PAYMENTS_ROWS)
    flip(segments_of(lake)[0], 5)
    assert verified(lake, "--topic", "pay*").code == 0
    assert verified(lake, "--topic", "orders", "--partition", "0").code == 2


def test_lakes_and_logs_do_not_mix(lake, made_once, capsys):
    logs = str(made_once[0] / "source")
    assert main(["verify", str(lake.path), logs]) == 64
    assert main(["verify", str(lake.path), str(lake.path)]) == 64
    assert main(["verify", logs, "--sample", "1/2"]) == 64
    assert main(["verify", str(lake.path), "--sample", "3/2"]) == 64
    assert main(["verify", str(lake.path), "--config", "cleanup.policy=compact"]) == 64


def test_without_the_package_that_knows_tables_it_is_named(lake, monkeypatch, capsys):
    from importlib import metadata

    monkeypatch.setattr(metadata, "entry_points", lambda **_: [])
    assert main(["verify", str(lake.path)]) == 3
    assert ".whl[lake]'" in capsys.readouterr().err


def test_the_text_has_a_line_for_each_finding_and_a_summary(lake, capsys):
    segments_of(lake)[1].unlink()
    assert main(["verify", str(lake.path)]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("error archive-file-missing: orders-0, archived offsets [10, 20): ")
    assert lines[-1] == "findings: 1 error, 0 warning, 0 info"


def test_a_table_with_a_feature_that_we_refuse_is_exit_3(lake, verified):
    log = lake.path / "tables" / "records" / "_delta_log"
    newest = int(max(log.glob("*.json")).stem)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    (log / f"{newest + 1:020d}.json").write_text(json.dumps({"protocol": protocol | features}) + "\n")
    done = verified(lake)
    assert (done.code, done.summary) == (3, {})
    assert "deletionVectors" in done.errors


@pytest.mark.long
def test_on_a_terminal_findings_are_below_their_log_and_the_progress_counts_bytes(lake):
    flip(segments_of(lake)[0], 5)
    impatient = "import logcore.cli.output.progress as p; p.TERMINAL_SECONDS = 0"
    shown = on_terminal("verify", lake.path, before=impatient)
    assert shown.code == 2
    progress, _, rest = shown.text.rpartition("\r\x1b[2K")
    assert re.search(r"\d+ of \d+ verified, [\d.]+ of [\d.]+ KiB, \d+ MB/s, .*1 finding, ", progress)
    heading, finding = rest.splitlines()[:2]
    assert heading == "\x1b[1morders-0\x1b[0m"
    assert finding.startswith("  \x1b[31merror\x1b[0m archive-file-changed: ")
    assert " KiB; " in rest
    assert "verified in " in rest
    quiet = on_terminal("verify", lake.path, "--format", "jsonl", shows_errors=False)
    assert "\x1b" not in quiet.text
    assert [json.loads(line).get("rule") for line in quiet.text.splitlines()] == ["archive-file-changed", None]


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("[1]", "it is not a JSON object"),
        ('{"x": 1}', "it has no layout"),
        ('{"layout": "2", "cluster": null}', "its layout is '2'"),
        ('{"layout": 0, "cluster": null}', "its layout is 0"),
        ('{"layout": 2}', "it has no cluster"),
        ('{"layout": 2, "cluster": 7}', "its cluster is 7"),
        ("{", "it is not JSON (Expecting property name"),
    ],
)
def test_a_damaged_description_of_the_lake_says_what_is_wrong_with_it(lake, capsys, content, wrong):
    (lake.path / "lake.json").write_text(content)
    assert main(["verify", str(lake.path)]) == 3
    said = capsys.readouterr().err
    assert f"lake.json is not the description of a lake: {wrong}" in said
    assert "Restore it from a copy of the lake, or choose another --lake." in said
