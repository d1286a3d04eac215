"""The proposal of a recovery, a salvage or a rebuild of side files: files, steps and losses, as a value."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from logcore.exit_codes import ExitCode
from logcore.logs.model import readable_end
from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, Proposal, RootLines, Write
from logcore.logs.model.remote_tier import below_start, remote_range
from logcore.logs.recovery.loading import Loading
from logcore.logs.recovery.losses import Loss
from logcore.logs.recovery.working_files import RecoveryStep
from logcore.ranges import Range, joined, left_out
from logcore.segments import filenames
from logcore.segments.side_files.leader_epochs import Epochs

_FATAL_ROOT_FILES = {
    filenames.RECOVERY_POINT_FILE: "recovery_point",
    filenames.LOG_START_FILE: "log_start_offset",
    filenames.HIGH_WATERMARK_FILE: "high_watermark",
    filenames.CLEANER_FILE: "first_dirty_offset",
}


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """The proposal of a recovery.

    Attributes:
        files: The new directory.
        dropped: Files that are not in it, and why.
        steps: What the start did.
        losses: What it loses.
        root: The new lines in the root files.
        leader_epochs: The new history.
        log_start_offset: The new log start.
        log_end_offset: The new log end.
        refusal: Why a broker would not start; then there are no files.
    """

    files: Proposal
    dropped: dict[str, str] = field(default_factory=dict)
    steps: tuple[RecoveryStep, ...] = ()
    losses: tuple[Loss, ...] = ()
    root: RootLines = RootLines()  # noqa: RUF009 - a frozen value
    leader_epochs: Epochs = ()
    log_start_offset: int = 0
    log_end_offset: int = 0
    refusal: str | None = None

    @property
    def exit_code(self) -> ExitCode:
        """0 nothing lost · 1 warnings · 2 something is lost · 3 a broker would not start."""
        if self.refusal is not None:
            return ExitCode.NOT_CHECKED
        if any(loss.severity is Severity.ERROR for loss in self.losses):
            return ExitCode.DAMAGE
        is_warned = any(loss.severity is Severity.WARNING for loss in self.losses)
        return ExitCode.WARNING if is_warned else ExitCode.CLEAN

    @property
    def lost(self) -> tuple[Range, ...]:
        """The offsets that losses of severity error name."""
        return joined(
            (loss.first_offset, self.log_end_offset if loss.last_offset is None else loss.last_offset + 1)
            for loss in self.losses
            if loss.severity is Severity.ERROR and loss.first_offset is not None
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without any file's bytes."""
        return {
            "refusal": self.refusal,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "files": shown_files(self.files),
            "dropped": dict(sorted(self.dropped.items())),
            "steps": [asdict(step) for step in self.steps],
            "losses": [{**asdict(loss), "severity": str(loss.severity)} for loss in self.losses],
            "leader_epochs": [[entry.epoch, entry.start_offset] for entry in self.leader_epochs],
            "root": asdict(self.root),
        }

    def provenance(self, source: str) -> list[dict[str, Any]]:
        """For JSON, the offsets that the new log has, as ranges with their source.

        Args:
            source: The directory that they are taken from.
        """
        end = self.log_end_offset if self.refusal is None else self.log_start_offset
        held = left_out(self.log_start_offset, end, self.lost)
        return [{"start_offset": first, "end_offset": after, "source": source} for first, after in held]


def shown_files(files: Proposal) -> dict[str, dict[str, Any]]:
    """A proposal for JSON: the action for each file, without its bytes."""
    shown: dict[str, dict[str, Any]] = {}
    for name, file in sorted(files.items()):
        match file:
            case Keep(source):
                shown[name] = {"keep": source}
            case Cut(source, size, modified_ms):
                shown[name] = {"cut": source, "size": size, "modified_ms": modified_ms}
            case Write(content, modified_ms):
                shown[name] = {"write": len(content), "modified_ms": modified_ms}
    return shown


def root_refusal(findings: Iterable[Finding], stated: Collection[str] = ()) -> str | None:
    """Why a broker would not start with the root files of these findings; None if it would.

    Args:
        findings: The findings.
        stated: Attributes of `RootLines` that are known from elsewhere. Their file does not matter here.
    """
    for finding in findings:
        name = posixpath.basename(finding.file or "")
        is_fatal = finding.rule == "broken-root-file" and name in _FATAL_ROOT_FILES
        if is_fatal and _FATAL_ROOT_FILES[name] not in stated:
            return f"A broker would not start with this: file {name}: {finding.message}"
    return None


def root_lines(loading: Loading, directory: PartitionDirectory) -> RootLines:
    """The lines of the root files for a log after its start."""
    watermark = directory.high_watermark
    if watermark is not None:
        watermark = readable_end.high_watermark(
            watermark, log_start_offset=loading.log_start_offset, log_end_offset=loading.log_end_offset
        )
    first_base = min(loading.segments)
    log_start_offset = loading.log_start_offset if loading.log_start_offset > first_base else None
    epochs = loading.epochs if filenames.LEADER_EPOCH_FILE in directory.files else None
    known = below_start(directory.log_start_offset, first_base, epochs, (), lambda: directory.is_tiered)
    remote = remote_range(known)
    if remote is not None:  # a tiered log begins there, or may begin there, and only this line shows it
        log_start_offset = remote[0]
    return RootLines(
        loading.recovery_point,
        log_start_offset,
        watermark,
        directory.first_dirty_offset,
    )
