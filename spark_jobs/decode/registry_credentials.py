"""Credentials of a schema registry, from an environment variable or a file. A policy names the place, not the secret.

The text is ``USER:PASSWORD`` for HTTP basic authentication, or ``Bearer TOKEN``. Only the driver reads it, to plan.
It is in no task, no configuration of a job, no error and no log.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field

from spark_jobs.errors import UsageError
from spark_jobs.policies.policy_values import VARIABLE_PREFIX

_BEARER = "Bearer "
_LARGEST = 64 << 10
"""Bytes of a file with credentials; tokens of the usual kinds have a few kilobytes."""


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """What a request to a registry is authorized with. Its text form has no secret."""

    place: str
    """Where they come from: ``env:NAME``, or a path."""
    authorization: str = field(repr=False)
    """Value of the header ``Authorization`` (RFC 7617, RFC 6750)."""

    @classmethod
    def of(cls, place: str) -> RegistryCredentials:
        """Read credentials.

        Args:
            place: ``env:`` and the name of a variable, or the path of a file.

        Raises:
            UsageError: The variable is not set, the file can't be read, or the text is of neither form.
        """
        text = _text(place).strip("\r\n")
        if text.startswith(_BEARER):
            token = text.removeprefix(_BEARER).strip()
            if token and token.isascii() and token.isprintable() and " " not in token:
                return cls(place, _BEARER + token)
        elif ":" in text and text.isprintable():
            return cls(place, "Basic " + base64.b64encode(text.encode()).decode())
        raise UsageError(
            f"The credentials of the schema registry in {place} have neither the form USER:PASSWORD nor Bearer TOKEN, "
            "in one line."
        )


def _text(place: str) -> str:
    if place.startswith(VARIABLE_PREFIX):
        variable = place.removeprefix(VARIABLE_PREFIX)
        text = os.environ.get(variable)
        if not text:
            raise UsageError(f"The variable {variable} is not set. Put the credentials of the schema registry there.")
        return text
    try:
        with open(place, "rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise UsageError(f"The file {place} has more than {_LARGEST} bytes: these are no credentials.")
        return content.decode()
    except OSError as error:
        raise UsageError(
            f"The credentials of the schema registry {place} can't be read: {error.strerror}. Put USER:PASSWORD there."
        ) from error
    except UnicodeDecodeError:
        raise UsageError(f"The credentials of the schema registry in {place} are not UTF-8 text.") from None
