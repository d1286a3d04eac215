"""What Spark's event log says of stages."""

from __future__ import annotations

import json
from pathlib import Path


def shuffled_bytes(events: Path, job: str | None = None) -> list[int]:
    """What each stage wrote to Spark's shuffle; of the stages of one of our jobs, or of all."""
    sizes: dict[tuple[str, int], int] = {}
    chosen: set[tuple[str, int]] = set()
    for path in sorted(events.glob("*/events_*")):
        application = path.parent.name  # each counts its stages from 0
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerJobStart":
                if job in (None, event.get("Properties", {}).get("spark.jobGroup.id")):
                    chosen.update((application, stage) for stage in event["Stage IDs"])
            elif event["Event"] == "SparkListenerTaskEnd":
                written = event["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                stage = application, event["Stage ID"]
                sizes[stage] = sizes.get(stage, 0) + written
    return [size for stage, size in sizes.items() if stage in chosen]
