"""The sources of modules and of their imports. They decide whether code compiled from the modules is still valid.

Modules are read and not imported, from the place where the interpreter would find them: a folder or a zip.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from importlib.machinery import PathFinder
from importlib.resources.abc import Traversable
from pathlib import Path

_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n(]*)|import[ \t]+([^\n]+))", re.M)
_COMMENT = re.compile(rb"#[^\n]*")
_NAME = re.compile(rb"[\w.]+")


class ModuleSources:
    """The modules of one package, each read once.

    Imports from other packages are not followed.
    """

    def __init__(self, package: str) -> None:
        """Find the package; its modules are read on request.

        Args:
            package: Dotted name of the package; its parent package is imported.
        """
        self._package = package
        self._root = resources.files(package)
        self._contents: dict[str, bytes] = {}
        self._imports: dict[str, tuple[str, ...]] = {}

    def digest(self, modules: Sequence[str]) -> bytes:
        """Compute the SHA-256 of the names and sources of modules and of all modules of the package that they import.

        Args:
            modules: Dotted names below the package.

        Raises:
            FileNotFoundError: There is no such module.
        """
        digest = hashlib.sha256()
        for name in self.closure(modules):
            digest.update(f"{name} {len(self._contents[name])}\n".encode() + self._contents[name])
        return digest.digest()

    def closure(self, modules: Sequence[str]) -> tuple[str, ...]:
        """Return modules and their imports from the package, direct and indirect: sorted dotted names below it."""
        found: set[str] = set()
        waiting = list(modules)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._imported_by(name)
        return tuple(sorted(found))

    def _imported_by(self, name: str) -> tuple[str, ...]:
        if name not in self._imports:
            place = self._place_of(name)
            if place is None:
                raise FileNotFoundError(f"there is no module {self._package}.{name}")
            self._contents[name] = place.read_bytes()
            self._imports[name] = tuple(self._modules_in(_COMMENT.sub(b"", self._contents[name])))
        return self._imports[name]

    def _modules_in(self, source: bytes) -> Iterator[str]:
        for module, names, plain in _IMPORT.findall(source):
            for each in _NAME.findall(plain):
                yield from self._below(each.decode())
            if module:
                # A name that is imported from a package may be one of its modules, or a name in the package itself.
                yield from self._below(module.decode())
                for each in _NAME.findall(names):
                    yield from self._below(f"{module.decode()}.{each.decode()}")

    def _below(self, dotted: str) -> Iterator[str]:
        """Yield the name below the package, if it is one of its modules."""
        if dotted == self._package:
            yield ""
        elif dotted.startswith(f"{self._package}."):
            name = dotted[len(self._package) + 1 :]
            if self._place_of(name) is not None:
                yield name

    def _place_of(self, name: str) -> Traversable | None:
        *parents, last = name.split(".")
        folder = self._root
        for parent in parents:
            folder = folder.joinpath(parent)
        package = folder.joinpath(last) if last else folder
        for place in (folder.joinpath(f"{last}.py"), package.joinpath("__init__.py")):
            if place.is_file():
                return place
        return None


@cache
def installed_version(package: str) -> bytes:
    """Return bytes that identify the version of an installed package, which is not imported; empty if it is missing.

    The bytes are those of its file `_version.py`, or else its version: to import a large package, or to read its
    metadata, takes tens of milliseconds.
    """
    found = PathFinder.find_spec(package)
    if found is None or found.origin is None:
        return b""
    try:
        return Path(found.origin).with_name("_version.py").read_bytes()
    except OSError:
        from importlib import metadata  # its import is slower than loading the kernels

        return metadata.version(package).encode()
