"""`verify` is silent on what a broker itself starts on, whatever settings and clients made it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.operated import Operated
from tests.kafka.operated_long import findings

pytestmark = pytest.mark.kafka


@pytest.mark.long
def test_verify_is_silent_on_a_broker_operated_at_random(kafka: None, tmp_path: Path):
    operated = Operated(tmp_path / "broker", seed=2)
    operated.round(kill=True)
    assert findings(operated.log_dir, severities=("error",)) == [], "\n".join(operated.story)
    operated.round(kill=False)
    assert findings(operated.log_dir) == [], "\n".join(operated.story)
