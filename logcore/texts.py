"""Names that somebody else chose, as text: groups, client ids, header names, paths.

Such a name is bytes. Bytes that are not UTF-8 become U+FFFD, as in every Java client, so all outputs and tables have
the same form. A person sees a name through `shown`: a terminal obeys control characters, and characters that turn the
direction of text hide what is there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that a terminal obeys, without those below 32: JSON escapes these by itself."""


def java_text(content: bytes) -> str:
    """Decode bytes as Java does: `new String(content, UTF_8)`, malformed parts as U+FFFD.

    Java and Python split malformed bytes in the same way, except for encoded surrogates.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(b"\xff", content).decode("utf-8", errors="replace")


def utf8_text(content: bytes | None) -> str | None:
    """Return bytes as text if they are UTF-8, else None."""
    try:
        return None if content is None else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def without_half_pairs(text: str) -> str:
    """Join the halves of surrogate pairs, which escapes can write, and make a half without its other one U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def shown(text: str) -> str:
    """Make a text fit for a message: invalid UTF-8 and characters that are not printable become escapes."""
    if text.isprintable():
        return text
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def sentences(texts: Iterable[str | None]) -> str:
    """Join texts of several origins. One that does not end like a sentence gets a full stop."""
    return " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in filter(None, texts))


def id_part(name: str) -> str:
    """Return a name as a part of ids and paths: bytes that topics do not have are written `=3d`, so it is injective."""
    return re.sub("[^A-Za-z0-9._-]", lambda other: "".join(f"={byte:02x}" for byte in other[0].encode()), name)


def json_shown(line: str) -> str:
    """Escape in a line of JSON what a terminal obeys. The values stay the same."""
    return line if line.isprintable() else _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def time_text(timestamp_ms: int) -> str:
    """Format a time as ISO-8601 in UTC; as a number outside of the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def milliseconds(value: int) -> str:
    """Return a time with its unit, and in a larger unit too: ``753117082 ms (8.7 days)``."""
    for unit, size in (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if abs(value) >= size:
            return f"{value} ms ({value / size:,.1f} {unit})"
    return f"{value} ms"


def shell_word(text: str) -> str:
    """Quote a text for a shell. Control characters, and bytes that are not UTF-8, are escaped inside of `$'...'`."""
    if text.isprintable():
        return shlex.quote(text)
    quoted = (
        f"\\x{byte:02x}" if not 32 <= byte < 127 or byte in b"'\\" else chr(byte)
        for byte in text.encode("utf-8", "surrogateescape")
    )
    return f"$'{''.join(quoted)}'"
