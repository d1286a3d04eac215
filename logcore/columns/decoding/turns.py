"""How much memory results may hold while they wait for their turn to be written.

Threads work on chunks ahead of the one whose results are taken. The bytes that they hold are counted when they are
made; sizes in headers are not trusted. Above the limit a thread waits until other results were taken, or until it is
its turn. The thread whose turn it is never waits, so one thread always goes on.
"""

from __future__ import annotations

import threading

WAITING_BYTES = 512 << 20
"""Of results that wait to be written out, for the process."""


class Waiting:
    """All that waits, of all threads. The thread that makes this object is the one that takes the results."""

    def __init__(self) -> None:
        self.limit = WAITING_BYTES
        self.nbytes = 0
        self.changed = threading.Condition()
        self.taker = threading.get_ident()

    def turn(self) -> Turn:
        """For one piece of work more."""
        return Turn(self)


class Turn:
    """One piece of work's place in the order."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._nbytes = 0
        self._is_given = self._is_dropped = False

    def give(self) -> None:
        """Everything before it was taken, and the taker waits for this one."""
        with self._waiting.changed:
            self._is_given = True
            self._waiting.changed.notify_all()

    def drop(self) -> None:
        """Its result is not wanted any more."""
        with self._waiting.changed:
            self._is_dropped = True
            self._release()

    def taken(self) -> None:
        """What it held was written out."""
        with self._waiting.changed:
            self._release()

    def hold(self, nbytes: int) -> bool:
        """Count more bytes as held, and wait while the process holds too many.

        Returns whether the caller must write out now what it holds: it is its turn, and the limit is exceeded.
        """
        waiting = self._waiting
        is_taker = threading.get_ident() == waiting.taker
        with waiting.changed:
            if is_taker or not self._is_dropped:
                self._nbytes += nbytes
                waiting.nbytes += nbytes
            while not (is_taker or self._is_given or self._is_dropped) and waiting.nbytes > waiting.limit:
                waiting.changed.wait()
            return (is_taker or (self._is_given and not self._is_dropped)) and waiting.nbytes > waiting.limit

    @property
    def is_dropped(self) -> bool:
        """Whether its result is not wanted any more."""
        return self._is_dropped and threading.get_ident() != self._waiting.taker

    def _release(self) -> None:
        self._waiting.nbytes -= self._nbytes
        self._nbytes = 0
        self._waiting.changed.notify_all()
