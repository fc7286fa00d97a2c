"""The picture of a comparison: one HTML file without anything from elsewhere."""

import html
import math
from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    from torch_npu.compare import Comparison, Row

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 1100, 320, 60, 30
_LOWEST, _HIGHEST = -16, 2  # decades of the relative difference
_MOST_POINTS = 4000
_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 24px; color: #222; background: #fff }
table { border-collapse: collapse; font-size: 13px } td, th { padding: 3px 8px; text-align: right; border-bottom: 1px solid #ddd }
td:nth-child(2), td:nth-child(4), th:nth-child(2), th:nth-child(4), td:last-child { text-align: left }
tr.differs td { background: #fdecea } .axis { stroke: #999 } .grid { stroke: #eee } text { font-size: 11px; fill: #555 }
.ok { fill: #2b7bba } .bad { fill: #c0392b } .limit { stroke: #e0a030; fill: none }
.first { stroke: #c0392b; stroke-dasharray: 4 3 }
"""


def _x(index: int, count: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - 10) * (index + 0.5) / max(count, 1)


def _y(value: float) -> float:
    decade = min(max(math.log10(value), _LOWEST), _HIGHEST) if value > 0 else _LOWEST
    return 10 + (_HEIGHT - _BOTTOM - 10) * (_HIGHEST - decade) / (_HIGHEST - _LOWEST)


def _points(rows: "List[Row]") -> "List[Row]":
    """At most _MOST_POINTS rows: of a long run of neighbours the worst one."""
    size = -(-len(rows) // _MOST_POINTS) or 1
    return [max(rows[i:i + size], key=lambda row: (bool(row.differs), row.error)) for i in range(0, len(rows), size)]


def _chart(rows: "List[Row]") -> str:
    points = _points(rows)
    parts = [f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="difference of each result">']
    for decade in range(_LOWEST, _HIGHEST + 1, 2):
        y = _y(10.0 ** decade)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
                     f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">1e{decade}</text>')
    bottom = _HEIGHT - _BOTTOM
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{bottom}" y2="{bottom}"/>'
                 f'<text x="{_LEFT}" y="{_HEIGHT - 8}">calls in their order; height: largest difference relative to the tensor; '
                 'the line: what is allowed</text>')
    path = " ".join(f"{'L' if i else 'M'}{_x(i, len(points)):.1f},{_y(row.limit):.1f}" for i, row in enumerate(points))
    parts.append(f'<path class="limit" d="{path}"/>')
    first = next((i for i, row in enumerate(points) if row.differs), None)
    if first is not None:
        x = _x(first, len(points))
        parts.append(f'<line class="first" x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{bottom}"/>')
    for i, row in enumerate(points):
        title = html.escape(f"{row.operator} #{row.call}, step {row.step}, {row.name}: {row.error:.3g}")
        kind = "bad" if row.differs else "ok"
        height = row.error if not row.differs else max(row.error, row.limit)
        parts.append(f'<circle class="{kind}" cx="{_x(i, len(points)):.1f}" cy="{_y(height):.1f}" r="3">'
                     f"<title>{title}</title></circle>")
    return "\n".join([*parts, "</svg>"])


def _table(rows: "List[Row]") -> str:
    heads = ("step", "operator", "call", "tensor", "dtypes", "shape", "max abs", "max rel", "cosine", "differs", "line")
    lines = ["<table><tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for row in rows:
        cosine = "" if row.cosine is None else f"{row.cosine:.7f}"
        dtypes = row.dtypes[0] if row.dtypes[0] == row.dtypes[1] else " / ".join(row.dtypes)
        shape = str(row.shapes[0]) if row.shapes[0] == row.shapes[1] else f"{row.shapes[0]} / {row.shapes[1]}"
        cells = (row.step, row.operator, row.call, f"{row.kind} {row.name}", dtypes, shape, f"{row.max_abs:.4g}",
                 f"{row.max_rel:.4g}", cosine, row.differs, row.lines[0])
        mark = ' class="differs"' if row.differs else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>")
    return "\n".join([*lines, "</table>"])


def page(comparison: "Comparison", summary: str, a: str, b: str) -> str:
    """The page as text; ``summary`` stands before the chart."""
    results = [row for row in comparison.rows if row.kind == "output"]
    return ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Two dumps</title>'
            f"<style>{_STYLE}</style></head><body>"
            f"<h1>Two dumps</h1><p>A: {html.escape(a)}<br>B: {html.escape(b)}</p><pre>{html.escape(summary)}</pre>\n"
            f"{_chart(results)}\n<h2>All tensors</h2>\n{_table(comparison.rows)}\n</body></html>\n")
