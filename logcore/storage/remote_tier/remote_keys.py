"""RSA private keys of encrypted segments, from files that the environment names.

``LOGLAKE_REMOTE_KEYS`` is a list of ID=FILE with commas between. The ID is the one that the plugin has for its key
(`encryption.key.pair.id`); FILE has the private key in PEM. Keys are never arguments, because arguments are seen in the
list of processes.
"""

from __future__ import annotations

import functools
import os

from logcore.errors import LogError
from logcore.remote.chunked.chunks import PrivateKeys, read_private_key
from logcore.storage.files import read_file
from logcore.storage.source_errors import shown

KEYS_VARIABLE = "LOGLAKE_REMOTE_KEYS"
_MOST_KEY_BYTES = 1 << 16


def private_keys() -> PrivateKeys:
    """Read the keys that the environment names.

    Raises:
        LogError: The variable is not a list of ID=FILE, or a file is no RSA private key.
    """
    return _private_keys(os.environ.get(KEYS_VARIABLE, ""))


@functools.lru_cache(maxsize=4)
def _private_keys(given: str) -> PrivateKeys:
    keys = {}
    for each in filter(None, (part.strip() for part in given.split(","))):
        key_id, equals, path = each.partition("=")
        if not equals or not key_id or not path:
            raise LogError(f"{KEYS_VARIABLE} is not a list of ID=FILE with commas between", advice="Correct it.")
        try:
            keys[key_id] = read_private_key(read_file(path, _MOST_KEY_BYTES))
        except LogError as error:
            message = f"{KEYS_VARIABLE} names {shown(path)} for the key {key_id!r}: {error.message}"
            raise LogError(message, advice="Correct the file, or what the variable says.") from error
    return PrivateKeys(keys)
