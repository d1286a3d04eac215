"""The name of each lake in a home. Pages, asset keys and job names show it, so it is unique and never changes.

A name has letters, digits, ``.``, ``_`` and ``-``. Two names of a home also differ as identifiers, which have ``_`` for
all other signs, and never two of them in a row.
"""

from __future__ import annotations

import hashlib
import keyword
import os
import re
from collections.abc import Collection, Mapping

from spark_jobs.lake.store import storage

_MAX_NAME = 80
"""Characters of a directory's name that are used."""
RESERVED = frozenset(keyword.kwlist) | {
    *("context", "conf", "config", "meta", "type", "input", "output"),
    *("arg_dict", "dict", "input_arg_dict", "output_arg_dict", "int", "str", "float", "bool"),
}
"""Names that Dagster does not allow for jobs and graphs."""


def key_of(lake: str) -> str:
    """Return the key of a lake: its directory's name and a digest of its path, so that keys are unique."""
    path = lake if storage.is_remote(lake) else os.path.realpath(lake)
    return f"{_plain(lake)}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"


def identifier(name: str) -> str:
    """Return a name as an identifier of letters, digits and single ``_``, which Dagster allows."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name)
    return f"{plain}_lake" if plain in RESERVED else plain


def unique_names(named: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each lake; a lake that has a name already keeps it.

    Args:
        named: The stored name of each lake by its path; empty where there is none.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for lake, name in named.items():
        if name and name == _clean(name) and identifier(name) not in taken:
            names[lake] = name
            taken.add(identifier(name))
    for lake in named:
        if lake not in names:
            names[lake] = free_name(lake, taken)
            taken.add(identifier(names[lake]))
    return names


def free_name(lake: str, taken: Collection[str]) -> str:
    """Return the first that is free: the directory's name, the same after its parent's name, the key.

    Args:
        taken: Identifiers of the other names.
    """
    name, parent = _plain(lake), os.path.dirname(os.path.normpath(lake))
    for candidate in (name, f"{_plain(parent)}-{name}"):
        if identifier(candidate) not in taken:
            return candidate
    return key_of(lake)


def _plain(lake: str) -> str:
    return _clean(os.path.basename(os.path.normpath(lake))) or "lake"


def _clean(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:_MAX_NAME]
