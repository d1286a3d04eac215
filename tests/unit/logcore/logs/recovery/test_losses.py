"""Which offsets no loss names: computed as ranges, and compared with a search offset by offset."""

import random
import re
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.logs.recovery.loss_kinds import LOSS_KINDS
from logcore.logs.recovery.losses import Loss, lost_ranges
from logcore.ranges import left_out


def loss(first: int | None, last: int | None) -> Loss:
    return Loss("cut", "file", "message", first_offset=first, last_offset=last)


def test_offsets_that_no_loss_names_are_those_that_each_of_them_leaves_out() -> None:
    chance = random.Random(15)
    for _ in range(500):
        starts = [chance.randrange(30) for _ in range(chance.randrange(6))]
        losses = [loss(start, start + chance.randrange(6)) for start in starts]
        losses += [loss(None, None), loss(chance.randrange(30), None)]  # these have no known end
        begin, end = sorted((chance.randrange(40), chance.randrange(40)))
        left = [offset for pair in left_out(begin, end, lost_ranges(losses)) for offset in range(*pair)]
        named = {
            offset
            for each in losses
            if each.first_offset is not None and each.last_offset is not None
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        assert left == [offset for offset in range(begin, end) if offset not in named]


def test_the_documentation_has_the_kinds_of_losses_as_they_are_declared() -> None:
    text = (Path(__file__).parents[5] / "docs" / "cli.md").read_text()
    table = text[text.index("| kind | severity | means |") :].split("\n\n")[0]
    rows = re.findall(r"^\| (`.*`) \| (\w+) \| (.*) \|$", table, re.MULTILINE)
    documented = [(name.strip("`"), severity, text) for names, severity, text in rows for name in names.split(", ")]
    assert documented == [(kind, str(severity), text) for kind, (severity, text) in LOSS_KINDS.items()]


@pytest.mark.parametrize("kind", LOSS_KINDS)
def test_the_help_explains_each_kind_of_loss(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", kind]) == 0
    severity, text = LOSS_KINDS[kind]
    assert (
        f"{kind}: {severity}, a loss that `loglake recover` or `reindex` reports: {text}.\n" in capsys.readouterr().out
    )
