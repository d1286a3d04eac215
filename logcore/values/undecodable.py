"""Why the bytes of a key or value cannot be decoded: a fixed list of reasons."""

from __future__ import annotations

from logcore.errors import ExplainedReason


class Reason(ExplainedReason):
    """Why a key or value cannot be decoded. Tables store the texts (`undecoded.reason`), so they must not change."""

    SHORT_PREFIX = "SHORT_PREFIX", "The bytes end inside the schema id, the GUID or the message indexes."
    NO_PREFIX = (
        "NO_PREFIX",
        "The first byte is neither 0 nor 1, and the policy names no schema for values without a prefix.",
    )
    UNKNOWN_SCHEMA = "UNKNOWN_SCHEMA", "No known schema has this id or GUID."
    OTHER_SUBJECT = "OTHER_SUBJECT", "The schema id belongs to another subject."
    HEADER_DIFFERS = "HEADER_DIFFERS", "The schema id in the record header differs from the one before the value."
    BAD_SCHEMA = (
        "BAD_SCHEMA",
        "The schema is invalid, refers to a missing schema or to itself, or has a shape that has no columns.",
    )
    OTHER_FORMAT = "OTHER_FORMAT", "The schema has another format than the policy names."
    INCOMPATIBLE_SCHEMA = "INCOMPATIBLE_SCHEMA", "The writer's schema cannot be aligned with the table's columns."
    TRUNCATED = "TRUNCATED", "The bytes end inside the value."
    TRAILING_BYTES = "TRAILING_BYTES", "Bytes are left after the value."
    LENGTH = "LENGTH", "A length or count is negative, or larger than the bytes that are left."
    VARINT = "VARINT", "A variable-length integer has more bytes than its type allows."
    INVALID_UTF8 = "INVALID_UTF8", "Text is not valid UTF-8."
    SYNTAX = "SYNTAX", "The text is not valid JSON."
    DUPLICATE_KEY = "DUPLICATE_KEY", "A JSON object has the same key twice."
    NOT_A_NUMBER = "NOT_A_NUMBER", "NaN or an infinity in JSON, or text where a number is expected."
    OUT_OF_RANGE = "OUT_OF_RANGE", "A number, date or timestamp does not fit into the column's type."
    WRONG_TYPE = "WRONG_TYPE", "A value of another type than the schema names, for instance 1.5 for a whole number."
    MISSING_FIELD = "MISSING_FIELD", "A required field is absent or null."
    UNKNOWN_FIELD = "UNKNOWN_FIELD", "A field that the schema does not allow."
    UNKNOWN_SYMBOL = "UNKNOWN_SYMBOL", "An enum symbol, or a union branch, that the schema does not have."
    TOO_DEEP = "TOO_DEEP", "The value is nested deeper than the limit."
    TOO_LARGE = "TOO_LARGE", "The value is larger than the limit."
    NOT_PROTOBUF = (
        "NOT_PROTOBUF",
        "The bytes are no Protobuf message, or one in too many levels: Protobuf's library says no more.",
    )
    WRONG_SIZE = "WRONG_SIZE", "A number in bytes does not have exactly the width of its type."
    ENCRYPTED = "ENCRYPTED", "The schema says that fields are encrypted; they are not decrypted here."
    DECODER_DIED = "DECODER_DIED", "The process that decoded the value died, also on the second try."


class Undecodable(Exception):
    """The bytes of one key or value cannot be decoded.

    Not a `LogError`: the log is intact, only the content of one record has another form than expected. The message
    never contains bytes or text of the value.

    Attributes:
        reason: One of the fixed list.
        place: The place in the value: a path such as `items[3].price`, or `byte 17`; empty for the whole value.
        detail: A phrase for people, with numbers and names of the schema only.
        framing: The framing of another registry that the bytes have; empty: none is seen.
    """

    def __init__(self, reason: Reason, place: str = "", detail: str = "", framing: str = "") -> None:
        super().__init__(f"{reason} {place} {detail}".strip())
        self.reason = reason
        self.place = place
        self.detail = detail
        self.framing = framing

    def inside(self, step: str) -> Undecodable:
        """The same failure, with its place seen from one level further out.

        Args:
            step: What leads from the outer value to the inner one: the name of a field, or `[3]`.
        """
        dot = "." if self.place and not self.place.startswith(("[", "{")) else ""
        return Undecodable(self.reason, f"{step}{dot}{self.place}", self.detail)
