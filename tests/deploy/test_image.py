"""The image: its user, its command, and the demo inside."""

from __future__ import annotations

import json

import pytest

from tests.deploy import image

pytestmark = [pytest.mark.long, pytest.mark.slow]


def test_the_image_runs_as_a_user_who_cannot_change_the_code(container: str) -> None:
    assert image.inside(container, "id", "-u").stdout == f"{image.USER}\n"
    assert image.inside(container, "loglake", "--version").stdout == "loglake 0.1.0\n"
    assert image.inside(container, "sh", "-c", "find /opt/loglake -writable ! -type l | head -n 1").stdout == ""


def test_the_demo_runs_inside_and_its_rows_can_be_read(container: str) -> None:
    done = image.inside(container, "loglake", "demo")
    assert done.returncode == 0, done.stderr[-3000:]
    lakes = image.inside(container, "sh", "-c", "ls -d /srv/loglake/home/lakes/*/lake.json").stdout.split()
    assert lakes
    counted = [
        image.inside(
            container,
            "loglake",
            "query",
            lake.removesuffix("/lake.json"),
            "select count(*) as n from records",
            "--format",
            "jsonl",
        )
        for lake in lakes
    ]
    assert all(json.loads(each.stdout)["n"] > 0 for each in counted), [each.stderr for each in counted]
