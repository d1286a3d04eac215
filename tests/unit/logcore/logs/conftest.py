"""The source that the tests of growth and agreement change."""

import pytest

from tests.unit.logcore.logs.described_source import Source, batch


@pytest.fixture
def source() -> Source:
    """Offsets 0 to 60 in three segments of two batches each."""
    return Source({0: [batch(0), batch(10)], 20: [batch(20), batch(30)], 40: [batch(40), batch(50)]}, high_watermark=60)
