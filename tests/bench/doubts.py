"""Segments that the kernels doubt, or did once, against the reference engine: the same segment, one thread.

    names      header names that are not UTF-8, which Kafka allows
    damaged    records that contradict their batch, below a right CRC: only the slow lane can say what they are
    mixed      every tenth batch is damaged

First it is made sure that both engines give the same rows, stretches and verdicts. Where every batch is damaged, the
slow lane does all the work, and what the kernels try in vain must not show.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass

from logcore.columns.checking.checked import CheckedSegment
from logcore.columns.engines import Engine, decode_segment
from logcore.columns.wanted import Place
from logcore.logs.checks.validation import SegmentValidation, SegmentVerdict
from tests import handmade
from tests.bench.quiet_place import one_processor
from tests.bench.results import Line, compared
from tests.bench.rounds import Contender, clocked, take_turns
from tests.bench.totals import Differ, same
from tests.fuzz.engines_compared import disagreeing

NAME = "doubtful-batches"
_RECORDS = 10
_PLACE = Place("bench", 0, "log", "segment")
_VERDICT = ("findings", "accounting", "end", "next_offset", "counts", "split_points", "min_timestamp", "max_timestamp")


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    has_foreign_names: bool
    damaged_every: int | None
    must: float
    aim: float


_KINDS = (
    _Kind("names", True, None, 1, 5),
    # Two engines that do the same work differ by the noise of the machine.
    _Kind("damaged", False, 1, 0.9, 1),
    _Kind("mixed", False, 10, 1, 2),
)


@dataclass(frozen=True, slots=True)
class _Made:
    content: bytes
    raw_bytes: int
    records: int


def lines(nbytes: int, rounds: int) -> Iterator[Line]:
    """Check that both engines agree, then let them take turns. `nbytes` is the size of a segment as stored.

    :raises Differ: they do not.
    """
    for kind in _KINDS:
        for is_gzip in (True, False):
            made = _segment(kind, is_gzip, nbytes)
            name = f"{NAME}, {kind.name}, {'gzip' if is_gzip else 'none'}"
            _check(name, made.content)
            for use, work in (("decode", _decode), ("verify", _verify)):
                contenders = [
                    Contender(
                        str(engine), clocked(lambda work=work, engine=engine, made=made: work(made.content, engine))
                    )
                    for engine in (Engine.KERNELS, Engine.REFERENCE)
                ]
                with one_processor():
                    outcome = take_turns(contenders, rounds=rounds)
                yield compared(
                    f"{name}, {use}",
                    outcome,
                    str(Engine.KERNELS),
                    str(Engine.REFERENCE),
                    raw_bytes=made.raw_bytes,
                    records=made.records,
                    must=kind.must,
                    aim=kind.aim,
                )


def _segment(kind: _Kind, is_gzip: bool, nbytes: int) -> _Made:
    stored, raw_bytes, number = bytearray(), 0, 0
    headers = [(b"\xff\xfe", b"x")] if kind.has_foreign_names else []
    while len(stored) < nbytes:
        is_damaged = kind.damaged_every is not None and number % kind.damaged_every == 0
        first, last = number * _RECORDS, _RECORDS - 1
        records = [
            handmade.record(
                each,
                b"user-%08d" % (first + each),
                b'{"id":%d,"page":"/p/%d","v":%d}' % (first + each, each * number % 977, number % 89),
                headers=headers,
                header_count=len(headers) + 3 if is_damaged and each == last else None,
            )
            for each in range(_RECORDS)
        ]
        plain = b"".join(records)
        body = gzip.compress(plain, 6, mtime=0) if is_gzip else plain
        attributes = handmade.GZIP if is_gzip else 0
        stored += handmade.batch(records, base_offset=first, attributes=attributes, body=body)
        raw_bytes, number = raw_bytes + len(plain), number + 1
    return _Made(bytes(stored), raw_bytes, number * _RECORDS)


def _check(name: str, content: bytes) -> None:
    for engine in disagreeing(content, 0):
        raise Differ(f"{name}: {engine} does not give the rows and stretches of the reference")
    same(name, _verify(content, Engine.KERNELS), _verify(content, Engine.REFERENCE), _VERDICT)


def _decode(content: bytes, engine: Engine) -> None:
    for _ in decode_segment(content, place=_PLACE, base_offset=0, sealed=True, engine=engine):
        pass


def _verify(content: bytes, engine: Engine) -> SegmentVerdict:
    if engine is Engine.KERNELS:
        checked = CheckedSegment(content, base_offset=0, sealed=True, file="f.log")
        for _ in checked:
            pass
        return checked
    validated = SegmentValidation(content, base_offset=0, sealed=True, file="f.log")
    for _ in validated:
        pass
    return validated
