"""Planted into what Dagster sees of a lake: steps, run configuration, partitions, definitions for others."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

FAILED_STEPS = "tests/dagster/test_failed_steps.py"

FAULTS = (
    Fault(
        "a step whose events are not stored runs again and finds nothing new",
        "pipelines/run/listener.py",
        "        self._not_recorded[run_id, step] = done",
        "        self._not_recorded.clear()",
        (FAILED_STEPS, "-k", "while_a_step_is_recorded_is_retried"),
    ),
    Fault(
        "a run of the command line waits for a further attempt to record it",
        "pipelines/run/direct.py",
        "    def is_record(self) -> bool:",
        "    def is_recorded(self) -> bool:",
        (FAILED_STEPS, "-k", "cannot_be_recorded"),
    ),
    Fault(
        "a listing that failed is a change of the source",
        "pipelines/run/source_listing.py",
        "    except StoreFailed:\n        raise\n    except (LogError, AddressError):  #",
        "    except (LogError, AddressError):  #",
        ("tests/object_store/test_sensor.py", "-k", "skips_the_tick and list"),
    ),
)
