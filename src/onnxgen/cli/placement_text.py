"""The table of who runs what, as text and as JSON."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from onnxgen.foundations.disk import format_bytes

if TYPE_CHECKING:
    from onnxgen.graph.placement import PlacementRow

_HEAD = ("node", "operator", "provider", "kernel", "bytes", "operations", "seconds")
_NUMBERS = 4
"""Where the columns begin that are aligned to the right."""


def placement_json(rows: Iterable[PlacementRow]) -> list[dict[str, Any]]:
    """A dictionary for each node; what the shapes do not say is None."""
    return [dataclasses.asdict(row) for row in rows]


def placement_text(rows: Sequence[PlacementRow]) -> str:
    """A line for each node, under it who declined it and why, and a line with the sums."""
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    lines = [_line(_HEAD, widths)]
    for row, line in zip(rows, cells[1:], strict=True):
        lines.append(_line(line, widths))
        lines += [f"    {name} declined: {reason}" for name, reason in row.declined.items()]
    lines.append(_summary(rows))
    return "\n".join(lines)


def _cells(row: PlacementRow) -> tuple[str, ...]:
    return (
        f"{row.graph}/{row.node}" if row.graph else row.node,
        row.operator,
        row.provider,
        row.kernel,
        "?" if row.bytes is None else format_bytes(row.bytes),
        "?" if row.operations is None else _short(row.operations),
        "?" if row.seconds is None else f"{row.seconds:.1e}",
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = [
        cell.rjust(width) if column >= _NUMBERS else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def _summary(rows: Sequence[PlacementRow]) -> str:
    counts = Counter(row.provider for row in rows)
    nodes = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    times = [row.seconds for row in rows if row.seconds is not None]
    unknown = sum(row.seconds is None for row in rows)
    estimate = f"estimated {sum(times):.1e} s" if times else "no estimate"
    missing = f", without {unknown} whose sizes are not known (--dim NAME=SIZE gives them)" if unknown else ""
    return f"{len(rows)} node{'s' * (len(rows) != 1)}: {nodes}; {estimate}{missing}"


def _short(count: int) -> str:
    for power, unit in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if count >= 10**power:
            return f"{count / 10**power:.1f} {unit}"
    return str(count)
