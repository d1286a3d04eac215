"""The list of planted faults stays plantable; planting them takes minutes: `make faults`."""

from __future__ import annotations

import pytest

from tests.planted_faults.every import FAULTS
from tests.planted_faults.fault import REPOSITORY, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_has_its_place_in_the_code_and_its_tests(fault: Fault):
    assert (REPOSITORY / fault.file).read_text().count(fault.old) == 1
    assert fault.new != fault.old
    assert (REPOSITORY / fault.tests[0]).exists()


def test_there_are_enough_of_them():
    assert len({fault.name for fault in FAULTS}) >= 10
