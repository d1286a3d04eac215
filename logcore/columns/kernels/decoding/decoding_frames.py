"""The frames of the kernels that find, decompress, check and decode batches."""

from logcore.columns.kernels.call_frames import Address, AddressOfEachCodec, CallFrame, layout


@layout
class WalkFrame(CallFrame):
    """The frame of `walk`."""

    __slots__ = ()

    source: Address
    size: int
    position: int
    expected: int
    """The lowest offset that the next batch may begin with."""
    ceiling: int
    """The highest offset that a batch may end with."""
    max_batches: int
    max_bytes: int
    """Stop after the batch that reaches this many bytes in all."""
    max_compressed: int
    """The same for compressed batches, which grow."""
    checksum_tables: Address
    table: Address
    crc32: Address
    """A faster CRC-32 for messages, 0 if there is none."""
    status: int
    count: int
    kind: int
    records: int
    """Sum of the record counts."""
    body_bytes: int
    codec: int
    """Codec of all batches; -1 if they have several. Markers between compressed batches do not count."""


@layout
class HopFrame(CallFrame):
    """The frame of `hop`."""

    __slots__ = ()

    source: Address
    size: int
    position: int
    target: int
    next_offset: int


@layout
class InflateFrame(CallFrame):
    """The frame of `inflate` and `validate_gzip`."""

    __slots__ = ()

    source: Address
    table: Address
    first: int
    """First row of the table to read, and where the next call continues."""
    end: int
    target: Address
    """Of `validate_gzip`: scratch space of 1,024 bytes."""
    room: int
    used: int
    status: int
    cap: int
    """Output bytes that one batch may give."""
    needed: int
    """With FULL: room that the next batch may take."""
    decoders: AddressOfEachCodec
    """LZ4_decompress_safe or ZSTD_decompressDCtx, 0 if there is none."""
    states: AddressOfEachCodec
    """The decoder's context, 0 if it needs none."""


@layout
class RecordsFrame(CallFrame):
    """The frame of `inspect`, `emit`, `unfold` and `emit_messages`."""

    __slots__ = ()

    source: Address
    source_size: int
    table: Address
    first: int
    """First row of the table to read, and where the next call continues."""
    end: int
    status: int
    row_capacity: int
    record: int
    """Progress in a batch that did not fit: records read, position after them, offset of the last."""
    at: int
    previous: int
    checksum_tables: Address
    position_base: int
    """Added to every position in the output."""

    # Messages.
    previous_last: int
    """Last offset before the first batch: an unfolded wrapper must begin after it."""
    wrapped: int
    """Not 0: the batches are wrappers, and their decompressed sets are read."""
    check_inner: int
    """Not 0: also check the checksums of the messages in a wrapper."""

    # What is wanted.
    filtered: int
    """Not 0: apply `ranges`, `since`, `until` and the key."""
    ranges: Address
    range_count: int
    since: int
    until: int
    until_open: int
    """Not 0: no timestamp is too late."""
    wanted_key: Address
    wanted_key_size: int
    """-1: any key."""
    wanted_name: Address
    """Only records with a record header of this name and content are wanted."""
    wanted_name_size: int
    """-1: any record."""
    wanted_content: Address
    wanted_content_size: int
    """-1: any content, or none."""
    with_control: int
    takes_any_name: int
    """Not 0: names of record headers may be any bytes. 0: a name that is not UTF-8 is a doubt."""

    # Where rows go; 0: the column is not wanted.
    to_offsets: Address
    to_timestamps: Address
    to_timestamp_validity: Address
    to_timestamps_ms: Address
    to_types: Address
    to_epochs: Address
    to_epoch_validity: Address
    to_positions: Address
    to_key_ends: Address
    to_keys: Address
    to_key_validity: Address
    to_value_ends: Address
    to_values: Address
    to_value_validity: Address
    to_header_ends: Address
    to_header_validity: Address
    to_name_ends: Address
    to_names: Address
    to_header_value_ends: Address
    to_header_values: Address
    to_header_value_validity: Address
    to_control: Address
    """For each row: the type of a control record, -1 for any other."""

    # What was written.
    rows: int
    key_bytes: int
    value_bytes: int
    header_count: int
    name_bytes: int
    header_value_bytes: int
    null_keys: int
    null_values: int
    null_timestamps: int
    null_headers: int
    null_header_values: int
    null_epochs: int
    names_not_utf8: int
    """Record headers in the rows whose name is not UTF-8."""


@layout
class LinesFrame(CallFrame):
    """The frame of `lines`, `text_lines` and `commit_lines`."""

    __slots__ = ()

    emitted: Address
    """The `RecordsFrame` whose buffers are written out."""
    first: int
    end: int
    """The row after the last one to write."""
    target: Address
    room: int
    used: int
    status: int
    prefix: Address
    """The text before the offset; at least 64 bytes may be read."""
    prefix_size: int
    fragments: Address
    digit_pairs: Address
    couples: Address
    hex_pairs: Address
    as_text: int
    """Not 0: keys and values that are UTF-8 are text. For `commit_lines`: lines are JSON."""
    printable: Address
    """A bit for each code point: whether it is printable. 0: `text_lines` ends with FOREIGN where it needs them."""
