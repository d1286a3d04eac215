"""A table of text for people: a row of headings, and columns of one width."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from logcore.texts import shown


def aligned_table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> str:
    """Return the lines of a table.

    Args:
        headings: The names of the columns.
        rows: A text for each column.
        numbers: Columns that are aligned at their right ends.
    """
    whole = [headings, *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in whole) for column in range(len(headings))]
    lines = []
    for row in whole:
        cells = (
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)
