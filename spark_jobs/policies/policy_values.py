"""The kinds of values that settings of ``policies.yaml`` have, and how each kind is read from its text.

Numbers are plain digits, as in Kafka's own configuration. A time may also have a unit (``7d``), and a size too
(``64MiB``). YAML's own numbers are not used: YAML 1.1 reads ``1_000``, ``010`` and ``1:30`` as unexpected numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

INT64_MAX = 2**63 - 1

VARIABLE_PREFIX = "env:"
"""Before the name of an environment variable that holds a value."""
_VARIABLE = VARIABLE_PREFIX + "[A-Za-z_][A-Za-z0-9_]*"

Units = tuple[tuple[str, int], ...]
"""Names of units with their factors."""

TIMES: Units = (
    ("ms", 1),
    ("s", 1_000),
    ("min", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
)
"""Milliseconds in each unit of time."""
SIZES: Units = (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40))
"""Bytes in each unit of size."""


def unit_names(units: Units) -> tuple[str, ...]:
    """Return the names alone."""
    return tuple(name for name, _ in units)


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """Values of a setting: a whole number in ``least..greatest``, in plain digits, or with one of its units."""

    least: int
    greatest: int = INT64_MAX
    units: Units = ()
    """:data:`TIMES`, :data:`SIZES`, or none."""

    def parse(self, text: str) -> int:
        """Return the number in a text, in milliseconds or bytes if it has a unit.

        Raises:
            ValueError: It is not such a number; the text says why.
        """
        # 20 characters are enough for every 64-bit number: a longer text is refused before it is converted
        read = re.fullmatch(r"(-?[0-9]{1,19}) ?([A-Za-z]*)", text, re.ASCII)
        factors = {"": 1, **dict(self.units)}
        if read is None or read[2] not in factors:
            units = f", with or without a unit ({', '.join(unit_names(self.units))})" if self.units else ""
            raise ValueError(f"not a whole number in plain digits{units}")
        number = int(read[1]) * factors[read[2]]
        if not self.least <= number <= self.greatest:
            raise ValueError(f"not in {self.least}..{self.greatest}")
        return number

    def text(self, number: int) -> str:
        """Return a number as a file may state it, in its largest unit below a week: `7d`, `1 GiB`; `unlimited`."""
        if number == INT64_MAX or number < 0:
            return "unlimited"
        gap = "" if self.units is TIMES else " "
        for name, factor in reversed(self.units):
            if name != "w" and number and number % factor == 0:
                return f"{number // factor}{gap}{name}"
        return str(number)

    @property
    def pattern(self) -> str:
        """A regular expression of the texts that have a unit, for a JSON schema; empty: none may."""
        return f"^[0-9]{{1,19}} ?({'|'.join(unit_names(self.units))})$" if self.units else ""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Values of a setting: a number in 0..1."""

    def parse(self, text: str) -> float:
        """Return the number in a text.

        Raises:
            ValueError: It is not such a number.
        """
        if not re.fullmatch(r"[0-9]*\.?[0-9]+", text, re.ASCII) or not 0 <= float(text) <= 1:
            raise ValueError("not a number in 0..1")
        return float(text)


@dataclass(frozen=True, slots=True)
class OneOf:
    """Values of a setting: one of these words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SomeOf:
    """Values of a setting: any of these words, as a list or separated by commas."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FilePath:
    """Values of a setting: a path, relative to the folder of the policies' file."""


@dataclass(frozen=True, slots=True)
class VariableOrPath:
    """Values of a setting: ``env:NAME`` for an environment variable, or the path of a file as for :class:`FilePath`.

    What such a place holds is secret. A text that seems to be the secret itself is refused.
    """

    def parse(self, text: str) -> str:
        """Return the text.

        Raises:
            ValueError: It is empty, has spaces or a colon, or no name of a variable follows ``env:``.
        """
        if not re.fullmatch(_VARIABLE + r"|[^\s:]+", text, re.ASCII):
            raise ValueError("neither a path without spaces and colons nor env: with the name of a variable")
        return text


_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Pace:
    """Values of a setting: a word, or ``every`` and a time."""

    words: tuple[str, ...]
    least_ms: int

    def parse(self, text: str) -> str | int:
        """Return the word, or the time in milliseconds.

        Raises:
            ValueError: It is neither; the text says why.
        """
        if text in self.words:
            return text
        if not text.startswith("every "):
            raise ValueError(f"known are {', '.join(self.words)}, and 'every' with a time such as 'every 5 min'")
        time_ms = WholeNumber(self.least_ms, units=TIMES).parse(text.removeprefix("every ").strip())
        if time_ms > _DAY_MS and time_ms % _DAY_MS:
            raise ValueError(f"an interval above a day has whole days, such as 'every {time_ms // _DAY_MS + 1} d'")
        return time_ms

    def text(self, time_ms: int) -> str:
        """Return a time as a file may state it."""
        return f"every {WholeNumber(self.least_ms, units=TIMES).text(time_ms)}"


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Values of a setting: an ``http`` or ``https`` address, or ``env:NAME`` for one in an environment variable."""

    def parse(self, text: str) -> str:
        """Return the text.

        Raises:
            ValueError: It is neither.
        """
        if not re.fullmatch(_VARIABLE + r"|https?://[^\s/?#]+\S*", text, re.ASCII):
            raise ValueError("not an http or https address, and not env: with the name of a variable that holds one")
        return text


def is_address(text: str) -> bool:
    """Return whether a text is an address, or names a variable that holds one."""
    try:
        WebAddress().parse(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class TopicOrAddress:
    """Values of a setting: the name of a topic, or what :class:`WebAddress` allows."""

    def parse(self, text: str) -> str:
        """Return the text.

        Raises:
            ValueError: It is neither.
        """
        if not is_address(text) and not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", text, re.ASCII):
            raise ValueError("neither the name of a topic nor an address; env:NAME names a variable with an address")
        return text


@dataclass(frozen=True, slots=True)
class Name:
    """Values of a setting: one name, without spaces and commas."""

    def parse(self, text: str) -> str:
        """Return the text.

        Raises:
            ValueError: It is empty, or has a space or a comma.
        """
        if not re.fullmatch(r"[^\s,]+", text):
            raise ValueError("not one name without spaces and commas")
        return text


@dataclass(frozen=True, slots=True)
class NameList:
    """Values of a setting: names, as a list or separated by commas."""


@dataclass(frozen=True, slots=True)
class PlaceList:
    """Values of a setting: directories, relative to the file, or ``s3://`` prefixes; one, or a list."""


Values = (
    WholeNumber
    | Ratio
    | OneOf
    | SomeOf
    | FilePath
    | VariableOrPath
    | Pace
    | WebAddress
    | TopicOrAddress
    | Name
    | NameList
    | PlaceList
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a policy."""

    name: str
    """Name in the file."""
    values: Values
    meaning: str
    """Description in one or two sentences, with the unit of a number."""
    stored_as: str = ""
    """Its field, if that does not have the name of the setting."""
    is_kafkas: bool = True
    """Whether it is a setting of Kafka, not only of Loglake."""
    removes_nothing: bool = False
    """Whether it only concerns reading and publishing, so that a policy may have it without ``cleanup.policy``."""

    @property
    def field(self) -> str:
        """Field of ``TopicPolicy``, or of ``LakePolicy``: the name with underscores, with few exceptions."""
        return self.stored_as or self.name.replace(".", "_")

    def text(self, value: object) -> str:
        """Return a value for a person, with its unit."""
        if isinstance(self.values, WholeNumber | Pace) and isinstance(value, int):
            return self.values.text(value)
        return ",".join(value) or "none" if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, slots=True)
class OwnSetting(Setting):
    """A setting that Kafka does not have. Most of them only concern reading and publishing."""

    is_kafkas: bool = False
    removes_nothing: bool = True
