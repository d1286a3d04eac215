"""The progress of `recover` and `reindex`: for each log the bytes that are read, then those that are written."""

from __future__ import annotations

from dataclasses import dataclass, field

from logcore.cli.output.progress import ProgressLine, bytes_text
from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, Proposal
from logcore.logs.recovery.segment_recovery import Recover, RecoveredSegment, watched_recovery
from logcore.records.varint import Buffer
from logcore.segments.filenames import LOG_SUFFIX


@dataclass(slots=True)
class CopyProgress:
    """Counts the bytes of one log after another.

    Attributes:
        line: Where the progress is shown.
        logs: Number of all logs.
    """

    line: ProgressLine = field(default_factory=ProgressLine)
    logs: int = 1
    _number: int = 0
    _name: str = ""
    _total: int = 0
    _sizes: dict[int, int] = field(default_factory=dict)
    """Bytes of the segments that were read, by base offset: a segment may be read twice."""
    _done: int = 0
    """Their sum."""
    _written: int = 0

    def next_log(self) -> None:
        """The next log begins."""
        self._number += 1

    def reads(self, directory: PartitionDirectory) -> None:
        """A partition directory of the log is read from now on."""
        self._name = str(directory.topic_partition)
        self._total = sum(file.size for name, file in directory.files.items() if name.endswith(LOG_SUFFIX))
        self._sizes.clear()
        self._done = 0
        # Kernels are compiled now, if necessary: that time says nothing about the bytes.
        is_chosen(Work.RECOVER)
        is_chosen(Work.CHECK)
        self.line.begin()

    def watched(self, recover: Recover) -> Recover:
        """Return a function that recovers a segment and counts its bytes."""

        def count(content: Buffer, base_offset: int, _: RecoveredSegment) -> None:
            self._done += len(content) - self._sizes.get(base_offset, 0)
            self._sizes[base_offset] = len(content)
            self._show("read", self._done, self._total)

        return watched_recovery(recover, count)

    def writes(self, files: Proposal, directory: PartitionDirectory) -> dict[str, int]:
        """The new partition directory is written from now on; returns the size of each file."""
        sizes = {}
        for name, file in files.items():
            match file:
                case Keep(source):
                    sizes[name] = directory.files[source].size
                case Cut(_, size, _):
                    sizes[name] = size
                case _:
                    sizes[name] = len(file.content)
        self._total, self._written = sum(sizes.values()), 0
        self.line.begin()
        return sizes

    def wrote(self, nbytes: int) -> None:
        """So many more bytes are written."""
        self._written += nbytes
        self._show("written", self._written, self._total)

    def _show(self, verb: str, done: int, total: int) -> None:
        of_logs = f", log {self._number:,} of {self.logs:,}" if self.logs > 1 else ""
        self.line.show(lambda seconds: f"{self._name}: {bytes_text(done, total, seconds)} {verb}{of_logs}")
