"""Names of record headers after a broker has rewritten their batch: bytes that are not UTF-8 are replaced.

Java reads a name as text and writes the text. Belongs here: names only. Keys and values are bytes.

Source: java.lang.String (decodeUTF8_UTF16, JDK 17), Kafka DefaultRecord.writeTo.
"""

from __future__ import annotations

from logcore.texts import java_text

Headers = tuple[tuple[bytes, bytes | None], ...]


def rewritten(headers: Headers) -> Headers:
    """The headers of a record after its batch is rewritten."""
    return tuple((rewritten_name(name), value) for name, value in headers)


def rewritten_name(name: bytes) -> bytes:
    """A header's name after Java has read and written it."""
    return java_text(name).encode()
