"""Records as lines, one record at a time in plain Python.

It is the specification of the lines that kernels write, and used where the kernels do not work. Only it shows what is
committed in KRaft's metadata log.
"""

from __future__ import annotations

from typing import TextIO

from logcore.cli.output.record_lines import committed_word, line_of
from logcore.columns.decoding.line_forms import LineForm, LineFormat
from logcore.errors import LogError
from logcore.logs.model.sources import SourceLog
from logcore.reading.consumer_log import ChosenRecords
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import cannot_read, open_segment, steps
from logcore.records.batch import BatchHeader
from logcore.records.record import Record
from logcore.segments.scanning.scan import ScannedBatch


class PlainLines:
    """Writes records of logs as lines. `shows_committed`: one of the logs is KRaft's metadata log."""

    def __init__(self, out: TextIO, form: LineForm, shows_committed: bool = False) -> None:
        self._out, self._form, self._shows_committed = out, form, shows_committed

    def write_log(
        self,
        chosen: ChosenRecords,
        notes: Notes,
        limit: int | None = None,
        *,
        committed_end: int | None = None,
    ) -> int | None:
        """Write the wanted records of a log, and report damage.

        Args:
            chosen: The log, and its wanted records.
            notes: Reports damage.
            limit: Most lines to write; None for any number.
            committed_end: The end of committed offsets in KRaft's metadata log.

        Returns:
            How many more lines may be written; None for any number.
        """
        left, log, wanted = limit, chosen.log, chosen.wanted
        for segment in chosen.files() if left != 0 else ():
            records: list[Record] = []
            try:
                source, walk = open_segment(log, segment, records, chosen.seek)
            except LogError as error:
                cannot_read(segment, error, notes)
                continue
            for item in steps(log, segment, source, walk, notes):
                if isinstance(item, ScannedBatch) and wanted.may_hold(item.header):
                    held = [record for record in records if wanted.holds(record, item.header.reader_shift)][:left]
                    for record in held:
                        self._out.write(self._line(log, item.header, record, committed_end))
                    if left is not None:
                        left -= len(held)
                    if left == 0:
                        return left
                records.clear()
                if chosen.end is not None and walk.next_offset >= chosen.end:
                    break
        return left

    def _line(self, log: SourceLog, header: BatchHeader, record: Record, committed_end: int | None) -> str:
        line = line_of(self._form, log.topic_partition, header, record)
        if not self._shows_committed:
            return line
        is_committed = None if committed_end is None else record.offset < committed_end
        if is_committed is None:
            return line
        if self._form.format is LineFormat.TEXT:
            return f"{line[:-1]}  {committed_word(is_committed)}\n"
        return f'{line[:-2]},"committed":{str(is_committed).lower()}}}\n'
