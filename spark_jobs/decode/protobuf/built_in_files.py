"""Files that a Protobuf schema may import although no registry has them and no folder of a policy.

Confluent's serializers have them built in, and register no reference for them. Each name leads to one file. So a schema
of a registry cannot import another file of this machine.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from functools import lru_cache

_SUFFIX = ".proto"


@lru_cache(maxsize=1)
def built_in_files() -> Mapping[str, str]:
    """Return paths by the names of imports. Files of packages that are not installed are left out."""
    return {
        **_files("google/protobuf", os.path.join(_folder("grpc_tools"), "_proto", "google", "protobuf")),
        **_files("google/type", _folder("google.type")),
        **_files("confluent", os.path.join(os.path.dirname(__file__), "confluent")),
    }


def _folder(package: str) -> str:
    """The folder of a package; one that does not exist if it is not installed. `google.type` has no module."""
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # of the package around it
        found = None
    places = None if found is None else found.submodule_search_locations
    return next(iter(places or ()), os.devnull)


def _files(name: str, folder: str) -> dict[str, str]:
    found = {}
    for below, _, names in os.walk(folder):
        for each in names:
            if each.endswith(_SUFFIX):
                path = os.path.join(below, each)
                found[f"{name}/{os.path.relpath(path, folder).replace(os.sep, '/')}"] = path
    return found
