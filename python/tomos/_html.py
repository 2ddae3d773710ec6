"""Tables for notebooks: what `_repr_html_` of the classes returns."""
from __future__ import annotations

from html import escape
from typing import Any

_CELL = "text-align: left; padding: 0.1em 0.8em 0.1em 0"


def table(title: str, rows: dict[str, Any]) -> str:
    """A heading and a table of two columns; entries that are None or "" are left out."""
    lines = [f"<tr><th style='{_CELL}'>{escape(name)}</th>"
             f"<td style='{_CELL}'>{escape(str(value))}</td></tr>"
             for name, value in rows.items() if value is not None and value != ""]
    return f"<div><b>{escape(title)}</b><table>{''.join(lines)}</table></div>"


def times(numbers: Any) -> str:
    """3 x 4 x 5"""
    return " x ".join(f"{n:g}" if isinstance(n, float) else str(n) for n in numbers)


def point(numbers: Any) -> str:
    """(1, 2, 3)"""
    return "(" + ", ".join(f"{float(n):.6g}" for n in numbers) + ")"


def size(count: float) -> str:
    """A number of bytes in the unit that suits it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
