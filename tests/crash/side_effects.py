"""Side effects of a process below one folder: named, counted, and at one of them something happens.

Everything that changes what another process could see is an effect: a file opened for writing, a Parquet file begun,
filled or closed, a sync, a rename, a folder made, a file removed, cut or given a time, and every Delta commit, once
before it lands and once after it. They are seen from outside, by Python's audit events and by wrappers around what
audit events do not show (`os.fsync`, Arrow's writers, Delta's commits); the code under test knows nothing of it.

What is planted happens *before* the effect: killed at the k-th, k - 1 took place. A plant cannot be undone: it belongs
to a process that ends soon.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.daemons import WAIT_SECONDS

_RANDOM = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AUDITED = {
    "os.mkdir": "mkdir",
    "os.rename": "rename",
    "os.remove": "unlink",
    "os.rmdir": "rmdir",
    "os.truncate": "truncate",
    "os.utime": "utime",
    "os.chmod": "chmod",
    "os.link": "link",
    "os.symlink": "symlink",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True, slots=True)
class Happening:
    """What happens at an effect: ``kill``, ``fail`` (an `OSError`), ``pause`` (until another process says so) or
    ``linger`` (at every one, until a reader has looked again)."""

    what: str
    at: int | None = None
    """The number of the effect, from 1; None: those that have `named` in their name."""
    named: str = ""
    errno: int = errno.ENOSPC
    forever: bool = False
    """Whether every effect from there on fails: a full disk stays full. Removing is always possible."""
    signals: str = ""
    """Folder of marks: ``pid``; a paused process leaves ``paused``, waits for ``go-on`` and leaves ``resumed``. One
    that lingers finds the count of a reader's looks in ``looks``."""
    once: bool = False
    """Whether it happens in one of several processes only, the first to get there."""


@dataclass(frozen=True, slots=True)
class Order:
    """Where side effects count, and what is to happen."""

    root: str
    happening: Happening | None = None
    journal: str | None = None
    """File that gets a line for each effect: its name, a tab, and of a rename the path that it leads away from."""

    @classmethod
    def from_json(cls, text: str) -> Order:
        """The reverse of `json.dumps(asdict(order))`."""
        value = json.loads(text)
        happening = value.pop("happening")
        return cls(**value, happening=Happening(**happening) if happening else None)


class SideEffects:
    """The effects of this process so far; see the module for what counts.

    Its order is given at once, or is read from the file `control` at each effect. So processes that serve many tasks,
    as Python workers of Spark do, can receive a new order, and count from 1 again.
    """

    def __init__(self, order: Order | None = None, control: str | None = None) -> None:
        self._roots: set[str] = set()
        self._happening: Happening | None = None
        self._journal: int | None = None
        self._count = 0
        self._busy = False
        self._control = control
        self._told = ""
        if order is not None:
            self._obey(order)

    def _obey(self, order: Order) -> None:
        self._roots = {os.path.abspath(order.root), os.path.realpath(order.root)}
        self._happening = order.happening
        self._count = 0
        if self._journal is not None:
            os.close(self._journal)
        self._journal = order.journal and os.open(order.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _listen(self) -> None:
        assert self._control is not None
        try:
            text = Path(self._control).read_text()
        except OSError:
            text = ""
        if text != self._told:
            self._told = text
            if text:
                self._obey(Order.from_json(text))
            else:
                self._roots = set()

    def install(self) -> None:
        """Watch this process from now on."""
        sys.addaudithook(self._audited)
        self._watch_syncs()
        self._watch_parquet()
        self._watch_delta()

    def effect(self, kind: str, path: object, source: object = None) -> None:
        """Something is about to change at `path`; `source` is what gets there by a rename."""
        if self._busy:
            return
        if self._control is not None:
            self._busy = True
            self._listen()
            self._busy = False
        where = self._inside(path)
        if where is None:
            return
        self._count += 1
        if self._journal is not None:
            was = self._inside(source) or "" if source is not None else ""
            os.write(self._journal, f"{kind} {where}\t{was}\n".encode())
        if self._is_due(kind, plain(f"{kind} {where}")):
            self._busy = True
            try:
                self._happen(str(path))
            finally:
                self._busy = False

    def _inside(self, path: object) -> str | None:
        """A path or descriptor, relative to the folder where effects count; None elsewhere."""
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return None
        if not isinstance(path, (str, bytes, os.PathLike)):
            return None
        text = os.path.abspath(os.fsdecode(path))
        for root in self._roots:
            if text == root or text.startswith(root + os.sep):
                return os.path.relpath(text, root)
        return None

    def _is_due(self, kind: str, name: str) -> bool:
        due = self._happening
        if due is None:
            return False
        if due.at is None:
            is_it = due.named in name
        elif due.forever:
            is_it = self._count >= due.at and kind not in ("unlink", "rmdir")
        else:
            is_it = self._count == due.at
        return is_it and (not due.once or self._is_first(Path(due.signals, "happened")))

    def _is_first(self, mark: Path) -> bool:
        self._busy = True
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return False
        finally:
            self._busy = False
        return True

    def _happen(self, path: str) -> None:
        due = self._happening
        assert due is not None
        if due.signals:
            Path(due.signals, "pid").write_text(str(os.getpid()))
        if due.what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        if due.what == "fail":
            raise OSError(due.errno, os.strerror(due.errno), path)
        if due.what == "linger":
            wait_for_a_look(Path(due.signals, "looks"))
            return
        self._happening = None
        Path(due.signals, "paused").touch()
        wait_for(Path(due.signals, "go-on"), 600)
        Path(due.signals, "resumed").touch()

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            if isinstance(path, int):  # a stream over a descriptor that was opened before
                return
            if (mode and set(mode) & set("wxa+")) or (not mode and flags & _WRITING):
                self.effect("open", path)
        elif event == "os.mkdir" and os.path.isdir(args[0]):
            return
        elif event in _AUDITED:
            # a rename is named by where it leads: that is what becomes visible
            leads = event in ("os.rename", "os.link", "os.symlink")
            path = args[1] if leads else args[0]
            if event in ("os.remove", "os.rmdir") and args[1] >= 0:  # named by the folder that is open
                path = os.path.join(os.readlink(f"/proc/self/fd/{args[1]}"), path)
            self.effect(_AUDITED[event], path, args[0] if leads else None)

    def _watch_syncs(self) -> None:
        for name in ("fsync", "fdatasync"):
            setattr(os, name, self._before("fsync", getattr(os, name), lambda descriptor: descriptor))

    def _watch_parquet(self) -> None:
        import pyarrow.parquet as pq

        writer = pq.ParquetWriter
        began = writer.__init__

        def begin(this: Any, where: Any, *args: Any, **kwargs: Any) -> None:
            this.written_path = where
            self.effect("begin", where)
            began(this, where, *args, **kwargs)

        writer.__init__ = begin
        # write_batch goes through write_table
        writer.write_table = self._before("fill", writer.write_table, lambda this, *_, **__: this.written_path)
        closed = writer.close

        def close(this: Any) -> None:
            if this.is_open:
                self.effect("close", this.written_path)
            closed(this)

        writer.close = close

    def _watch_delta(self) -> None:
        import deltalake
        from deltalake import DeltaTable

        for name in ("create_write_transaction", "vacuum", "create_checkpoint", "delete", "update", "restore"):
            setattr(
                DeltaTable, name, self._around_commit(getattr(DeltaTable, name), lambda this, *_, **__: _path(this))
            )
        written = self._around_commit(deltalake.write_deltalake, lambda table, *_, **__: _path(table))
        original = deltalake.write_deltalake
        for module in list(sys.modules.values()):  # wherever it was imported to
            if getattr(module, "write_deltalake", None) is original:
                module.write_deltalake = written  # type: ignore[attr-defined]
        create = DeltaTable.create

        def create_if_new(uri: Any, *args: Any, **kwargs: Any) -> Any:
            if os.path.isdir(os.path.join(str(uri), "_delta_log")):
                return create(uri, *args, **kwargs)
            self.effect("create", uri)
            made = create(uri, *args, **kwargs)
            self.effect("created", uri)
            return made

        DeltaTable.create = create_if_new

    def _before(self, kind: str, done: Callable[..., Any], path: Callable[..., object]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.effect(kind, path(*args, **kwargs))
            return done(*args, **kwargs)

        return watched

    def _around_commit(self, commit: Callable[..., Any], path: Callable[..., str]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            where = path(*args, **kwargs)
            self.effect("commit", where)
            result = commit(*args, **kwargs)
            self.effect("committed", where)
            return result

        return watched


def plain(name: str) -> str:
    """An effect's name without what is random in it."""
    return _RANDOM.sub("*", name)


def _path(table: Any) -> str:
    uri = table if isinstance(table, (str, os.PathLike)) else table.table_uri
    return str(uri).removeprefix("file://").rstrip("/")


def wait_for(path: Path, seconds: float = WAIT_SECONDS) -> None:
    """Return when a file is there; the other process is expected to make it."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody made {path} within {seconds} s")
        time.sleep(0.01)


def wait_for_a_look(count: Path, seconds: float = WAIT_SECONDS) -> None:
    """Return when the counting process has looked once more, from the beginning: one look may be under way."""
    deadline = time.monotonic() + seconds
    seen = int(count.read_text())
    while int(count.read_text()) < seen + 2:
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody looked again within {seconds} s")
        time.sleep(0.002)
