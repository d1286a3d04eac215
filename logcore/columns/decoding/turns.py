"""Limit the memory of results that wait until they are written.

Threads work on chunks ahead of the chunk whose results are taken. Their bytes are counted when they are made; sizes in
headers are not trusted. Above the limit a thread waits until other results were taken, or until it is its turn. The
thread whose turn it is never waits, so one thread can always continue.
"""

from __future__ import annotations

import threading

WAITING_BYTES = 512 << 20
"""Most bytes of waiting results in the process."""


class Waiting:
    """The waiting results of all threads. The thread that creates this object takes the results."""

    def __init__(self) -> None:
        self.limit = WAITING_BYTES
        self.nbytes = 0
        self.changed = threading.Condition()
        self.taker = threading.get_ident()

    def turn(self) -> Turn:
        """Create the turn of another job."""
        return Turn(self)


class Turn:
    """The place of one job in the order."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._nbytes = 0
        self._is_given = self._is_dropped = False

    def give(self) -> None:
        """Everything before it was taken, and the taker now waits for this one."""
        with self._waiting.changed:
            self._is_given = True
            self._waiting.changed.notify_all()

    def drop(self) -> None:
        """Its result is no longer wanted."""
        with self._waiting.changed:
            self._is_dropped = True
            self._release()

    def taken(self) -> None:
        """Its result was written out."""
        with self._waiting.changed:
            self._release()

    def hold(self, nbytes: int) -> bool:
        """Count more bytes, and wait while the process has too many.

        Returns:
            Whether the caller must now write its bytes: it is its turn, and the limit is exceeded.
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
        """Whether its result is no longer wanted."""
        return self._is_dropped and threading.get_ident() != self._waiting.taker

    def _release(self) -> None:
        self._waiting.nbytes -= self._nbytes
        self._nbytes = 0
        self._waiting.changed.notify_all()
