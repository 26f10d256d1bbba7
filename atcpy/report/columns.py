"""Plain tables: columns aligned by spaces, nothing cut, the same on a terminal and in a file."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[int] = ()) -> list[str]:
    """Lines with `head` above `rows`; the columns listed in `right` are flush right."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    flush_right = frozenset(right)
    return [
        "  ".join(
            cell.rjust(width) if i in flush_right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
