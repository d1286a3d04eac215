"""Names of the tables of topics in SQL: one rule for `loglake query` and for views of other engines.

SQL engines compare names without case, and many allow letters, digits and `_` only. The rule keeps different topics
apart under both conditions: `orders-eu` and `orders_eu` are `orders_2deu` and `orders__eu`.
"""

from __future__ import annotations

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789")


def view_name(kind: str, topic: str) -> str:
    """Return the SQL name of a table of a topic, such as `decoded_orders`.

    Lower-case letters and digits stay. `_` becomes `__`. Each other byte in UTF-8 becomes `_` and two hexadecimal
    digits. So two topics have one name only if they are equal.

    Args:
        kind: Folder of the table: `decoded` or `undecoded`.
        topic: Name of the topic.
    """
    return f"{kind}_{escaped(topic)}"


def escaped(name: str) -> str:
    """Return a name in the characters that a SQL name may have, as :func:`view_name` says."""
    return "".join(_escaped(byte) for byte in name.encode())


def _escaped(byte: int) -> str:
    if byte in _PLAIN:
        return chr(byte)
    return "__" if byte == ord("_") else f"_{byte:02x}"
