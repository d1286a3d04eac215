"""Prefix codes as zlib makes them: which symbol gets how many bits, ties included.

Optimal lengths are not unique, and deflate's bytes depend on the choice. zlib's: a binary heap ordered by frequency and
then by height, in which the first of two equals stays above; the node taken first is laid aside first; what would be
longer than the limit is shortened level by level, the longest codes going to the nodes that were laid aside first.

`numbers` is the working space of a stream (`deflate_slots`). Source:
RFC 1951, 3.2.2; zlib's trees.c for what the RFC leaves open. Belongs here: lengths and codes, no bytes.
"""

import numba as nb

from logcore.columns.kernels.deflate_slots import CODES, COUNTS, DEPTHS, FREQUENCIES, HEAP, NEXT, NODES, PARENTS, WIDTHS

_NODE_BITS = 10
_NODE = (1 << _NODE_BITS) - 1
_HEIGHT_BITS = 8


@nb.njit
def _sift(numbers, at, size):
    """Let the entry at a place of the heap sink to where it belongs. An entry is frequency, height and node, from the
    highest bits on; of equals in the first two the one that sinks stays above."""
    sinking = numbers[HEAP + at]
    below = at << 1
    while below <= size:
        smaller = numbers[HEAP + below]
        if below < size:
            other = numbers[HEAP + below + 1]
            if other <= smaller | _NODE:
                smaller = other
                below += 1
        if sinking <= smaller | _NODE:
            break
        numbers[HEAP + at] = smaller
        at = below
        below <<= 1
    numbers[HEAP + at] = sinking


@nb.njit
def _joined(numbers, alphabet, elements):
    """Join the two rarest until one is left, and lay all aside. Returns the highest symbol in use, and where the last
    node that was laid aside stands, the root."""
    size, highest = nb.int64(0), nb.int64(-1)
    for symbol in range(elements):
        frequency = numbers[FREQUENCIES + alphabet + symbol]
        numbers[WIDTHS + alphabet + symbol] = 0
        if frequency:
            size += 1
            numbers[HEAP + size] = (frequency << (_NODE_BITS + _HEIGHT_BITS)) | symbol
            highest = symbol
    # Two codes at least, the missing ones for the lowest symbols.
    while size < 2:
        if highest < 2:
            highest += 1
            symbol = highest
        else:
            symbol = nb.int64(0)
        size += 1
        numbers[HEAP + size] = (nb.int64(1) << (_NODE_BITS + _HEIGHT_BITS)) | symbol
    for at in range(size >> 1, 0, -1):
        _sift(numbers, nb.int64(at), size)
    node, aside = nb.int64(elements), nb.int64(NODES)
    while size >= 2:
        first = numbers[HEAP + 1]
        numbers[HEAP + 1] = numbers[HEAP + size]
        size -= 1
        _sift(numbers, nb.int64(1), size)
        second = numbers[HEAP + 1]
        aside -= 2
        numbers[HEAP + aside + 1] = first & _NODE
        numbers[HEAP + aside] = second & _NODE
        numbers[PARENTS + (first & _NODE)] = node
        numbers[PARENTS + (second & _NODE)] = node
        heights = (1 << _HEIGHT_BITS) - 1
        height = max((first >> _NODE_BITS) & heights, (second >> _NODE_BITS) & heights) + 1
        frequency = (first >> (_NODE_BITS + _HEIGHT_BITS)) + (second >> (_NODE_BITS + _HEIGHT_BITS))
        numbers[HEAP + 1] = (((frequency << _HEIGHT_BITS) | height) << _NODE_BITS) | node
        node += 1
        _sift(numbers, nb.int64(1), size)
    aside -= 1
    numbers[HEAP + aside] = numbers[HEAP + 1] & _NODE
    return highest, aside


@nb.njit
def build(numbers, alphabet, elements, longest):
    """Widths and codes for the frequencies of an alphabet, no code longer than `longest` bits; returns the highest
    symbol that has a code."""
    highest, root = _joined(numbers, alphabet, elements)
    for width in range(16):
        numbers[COUNTS + width] = 0
    overflow = nb.int64(0)
    numbers[DEPTHS + numbers[HEAP + root]] = 0
    for at in range(root + 1, NODES):
        node = numbers[HEAP + at]
        depth = numbers[DEPTHS + numbers[PARENTS + node]] + 1
        if depth > longest:
            depth = nb.int64(longest)
            overflow += 1
        numbers[DEPTHS + node] = depth
        if node < elements:
            numbers[WIDTHS + alphabet + node] = depth
            numbers[COUNTS + depth] += 1
    if overflow:
        _shorten(numbers, alphabet, elements, longest, overflow)
    codes(numbers, alphabet, highest)
    return highest


@nb.njit
def _shorten(numbers, alphabet, elements, longest, overflow):
    """Where nodes were deeper than codes may be long: move codes down from the levels above until all have room, and
    give the widths out again."""
    while overflow > 0:
        width = nb.int64(longest - 1)
        while numbers[COUNTS + width] == 0:
            width -= 1
        numbers[COUNTS + width] -= 1
        numbers[COUNTS + width + 1] += 2
        numbers[COUNTS + longest] -= 1
        overflow -= 2
    at = nb.int64(NODES)
    for width in range(longest, 0, -1):
        left = numbers[COUNTS + width]
        while left:
            at -= 1
            node = numbers[HEAP + at]
            if node < elements:
                numbers[WIDTHS + alphabet + node] = width
                left -= 1


@nb.njit
def count_widths(numbers, alphabet, elements):
    """Make ready for `codes` where widths were not made by `build`."""
    for width in range(16):
        numbers[COUNTS + width] = 0
    for symbol in range(elements):
        numbers[COUNTS + numbers[WIDTHS + alphabet + symbol]] += 1
    numbers[COUNTS] = 0


@nb.njit
def codes(numbers, alphabet, highest):
    """The canonical codes of the widths: the same order of symbols within a width, shorter ones first."""
    code = nb.int64(0)
    for width in range(1, 16):
        code = (code + numbers[COUNTS + width - 1]) << 1
        numbers[NEXT + width] = code
    for symbol in range(highest + 1):
        width = numbers[WIDTHS + alphabet + symbol]
        if width:
            code = numbers[NEXT + width]
            numbers[NEXT + width] = code + 1
            # Sixteen bits the other way round, by halves.
            code = ((code & 0x5555) << 1) | ((code >> 1) & 0x5555)
            code = ((code & 0x3333) << 2) | ((code >> 2) & 0x3333)
            code = ((code & 0x0F0F) << 4) | ((code >> 4) & 0x0F0F)
            code = ((code & 0xFF) << 8) | (code >> 8)
            numbers[CODES + alphabet + symbol] = code >> (16 - width)
