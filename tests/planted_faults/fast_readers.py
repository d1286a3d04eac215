"""Planted into what reads internal topics fast: readers made from schemas, columns of commits, blocks of records."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

STRAIGHT = "tests/unit/logcore/messages/test_straight_readers.py"
COLUMNS = "tests/unit/logcore/topics/test_commit_columns.py"
BROKEN = "tests/property/reading/test_broken_inside.py"
BULK = "tests/unit/logcore/reading/test_read_in_bulk.py"
LINES = "tests/unit/logcore/cli/test_commit_lines.py"

FAULTS = (
    Fault(
        "a made reader takes lengths with more bytes than needed",
        "logcore/messages/straight_readers.py",
        "            if byte == 0 or value > 0xFFFF_FFFF:\n",
        "            if value > 0xFFFF_FFFF:\n",
        (STRAIGHT, "-k", "doubt"),
    ),
    Fault(
        "a made reader takes tagged fields in any order",
        "logcore/messages/straight_readers.py",
        '        self._doubt(f"{tag} <= {last}")\n',
        "",
        (STRAIGHT, "-k", "other_order"),
    ),
    Fault(
        "a made reader shows tagged fields that equal their default",
        "logcore/messages/straight_readers.py",
        '        self._add(f"{held} = {value}", f"if {held} != {self._constant(_json_default(field))}:")\n',
        '        self._add(f"{held} = {value}", "if True:")\n',
        (STRAIGHT, "-k", "default"),
    ),
    Fault(
        "any tagged field after a commit counts as its topic id",
        "logcore/topics/commit_columns.py",
        '    is_topic_id = (value.part(tags_at, ">u1") == 1) & ',
        '    is_topic_id = (value.part(tags_at, ">u1") == 1) | ',
        (COLUMNS, "-k", "every_other_form"),
    ),
    Fault(
        "keys of other types are read as commits",
        "logcore/topics/commit_columns.py",
        '    fits &= (of_key["type"] == _KEY_TYPE) & (group_size >= 0)',
        '    fits &= (of_key["type"] >= 0) & (group_size >= 0)',
        (COLUMNS, "-k", "every_other_form"),
    ),
    Fault(
        "blocks take the attributes of a batch from another place",
        "logcore/reading/internal_topics/record_blocks.py",
        "_MAGIC, _ATTRIBUTES, _PRODUCER_ID = 16, 21, 43\n",
        "_MAGIC, _ATTRIBUTES, _PRODUCER_ID = 16, 20, 43\n",
        (BULK, "-k", "blocks"),
    ),
    Fault(
        "a ledger takes batches by their headers alone",
        "logcore/reading/segment_reading.py",
        "        sealed=log.is_sealed(segment),\n        next_base_offset=",
        "        sealed=log.is_sealed(segment),\n        decode=records is not None,\n        next_base_offset=",
        (BROKEN, "-k", "every_command"),
    ),
    Fault(
        "a salvage keeps batches whose records cannot be decoded",
        "logcore/logs/recovery/segment_pieces.py",
        "            sealed=next_base is not None,\n",
        "            sealed=next_base is not None,\n            decode=False,\n",
        (BROKEN, "-k", "every_command"),
    ),
    Fault(
        "lines of commits have text that is not UTF-8",
        "logcore/columns/kernels/decoding/commit_lines.py",
        "    if not is_utf8(values, text_at, text_at + length):\n",
        "    if length < 0:\n",
        (LINES, "-k", "plain_way"),
    ),
    Fault(
        "lines of commits have a topic id of zeros",
        "logcore/columns/kernels/decoding/commit_lines.py",
        "            if big_int64(values, time_at + 11) != 0 or big_int64(values, time_at + 19) != 0:\n",
        "            if True:\n",
        (LINES, "-k", "plain_way"),
    ),
)
