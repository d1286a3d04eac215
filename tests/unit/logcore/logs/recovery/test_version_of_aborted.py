"""Which versions of an aborted transaction keep a broker from starting, by its line (KAFKA: AbortedTxn.version)."""

from __future__ import annotations

import pytest

from logcore.logs.model.broker_line import BrokerLine


@pytest.mark.parametrize(
    ("version", "refusing"),
    [
        (0, ""),
        (4, "4.4"),
        (0x0100, "3.9 4.0 4.4"),
        (0x7FFF, "3.9 4.0 4.4"),
        (-1, "4.4"),
        (-0x8000, "4.4"),
    ],
)
def test_lines_before_4_4_look_at_the_first_byte_of_the_version_alone(version: int, refusing: str) -> None:
    """Seen in the bytecode of 3.9.2, 4.1.2 and 4.4.0, and of 4 with their own classes (`tests/differential/found`)."""
    assert " ".join(line for line in BrokerLine if line.refuses_aborted_version(version)) == refusing
