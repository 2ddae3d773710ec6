"""The rows of options.def as keyword arguments: structs, signatures and descriptions."""
from __future__ import annotations

import ctypes
import inspect
import math
import numbers
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from ._arrays import Array, Numbers, View, any_shape
from ._html import table
from ._library import ArrayStruct, BadValue, Error, HistoryStruct, check, lib, rows_of

_KINDS = ("int", "real", "angle", "flag", "text", "choice", "ints", "reals", "angles", "array",
          "history", "length", "energy", "size", "lengths")
_C_TYPES = {"int": ctypes.c_int64, "real": ctypes.c_double, "angle": ctypes.c_double,
            "flag": ctypes.c_int64, "text": ctypes.c_char_p, "choice": ctypes.c_char_p,
            "ints": ctypes.POINTER(ctypes.c_int64), "reals": ctypes.POINTER(ctypes.c_double),
            "angles": ctypes.POINTER(ctypes.c_double), "array": ctypes.POINTER(ArrayStruct),
            "history": ctypes.POINTER(HistoryStruct), "length": ctypes.c_double,
            "energy": ctypes.c_double, "size": ctypes.c_int64,
            "lengths": ctypes.POINTER(ctypes.c_double)}
_HINTS = {"int": int, "real": float, "angle": float, "flag": bool, "text": str, "choice": str,
          "ints": Optional[Union[int, Sequence[int], np.ndarray]],
          "reals": Optional[Union[float, Numbers]],
          "angles": Optional[Union[float, Numbers]], "array": Optional[Array],
          "history": Optional["History"], "length": Union[float, str],
          "energy": Union[float, str], "size": Union[int, str],
          "lengths": Optional[Union[float, str, Sequence[Union[float, str]], np.ndarray]]}
_PARSERS = {"length": lib.length_parse, "energy": lib.energy_parse, "size": lib.size_parse}
_LISTS = {"ints": np.int64, "reals": np.float64, "angles": np.float64, "lengths": np.float64}


class Row(NamedTuple):
    """An option: a row of options.def."""
    name: str
    kind: str
    default: Any
    values: str
    help: str
    needs: str = ""  #: what it has no effect without, unless the defaults have it

    @property
    def parameter(self) -> inspect.Parameter:
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=self.default,
                                 annotation=_HINTS[self.kind])

    @property
    def described(self) -> str:
        values = f" ({self.values.replace('|', ', ')})" if self.kind == "choice" else ""
        # Help texts have the names of the command line.
        text = re.sub(r"--([a-z][a-z-]*)", lambda m: "`" + m[1].replace("-", "_") + "`", self.help)
        needs = f"; needs {self.needs}" if self.needs else ""
        return f"{self.name}: {text}{needs}{values}"


class History:
    """The course of an iteration; pass one as `history=`.

    >>> A = tomos.Projector(None, tomos.parallel(views=8, columns=8))
    >>> history = tomos.History()
    >>> x = tomos.sirt(A, A @ np.ones((8, 8)), iterations=5, history=history)
    >>> len(history.residual), history.ended
    (5, 'iterations')
    """

    def __init__(self) -> None:
        self.residual: np.ndarray = np.empty(0)  #: ||b - A x|| / ||b|| of each iteration
        self.error: np.ndarray = np.empty(0)     #: ||x - truth|| / ||truth||, with a truth
        self.best: int = 0                       #: iteration of least error, from 1; 0: no truth
        self.ended: str = ""                     #: the stop rule that ended it, or "cancelled"
        self._struct = HistoryStruct()

    def _prepare(self, size: int) -> HistoryStruct:
        self.residual, self.error = np.full(size, np.nan), np.full(size, np.nan)
        real = ctypes.POINTER(ctypes.c_double)
        self._struct = HistoryStruct(self.residual.ctypes.data_as(real),
                                     self.error.ctypes.data_as(real), size)
        return self._struct

    def _finish(self) -> None:
        count = min(self._struct.count, self._struct.capacity)
        self.residual, self.error = self.residual[:count], self.error[:count]
        self.best = self._struct.best
        self.ended = (self._struct.ended or b"").decode()

    def __repr__(self) -> str:
        ended = self.ended or "not yet run"
        return f"<tomos.History of {len(self.residual)} iterations, ended: {ended}>"

    def _repr_html_(self) -> str:
        done = len(self.residual)
        return table("History", {
            "iterations": done, "ended by": self.ended or "not yet run",
            "residual": f"{self.residual[-1]:.6g}" if done else None,
            "error": f"{self.error[-1]:.6g}" if done and np.isfinite(self.error[-1]) else None,
            "iteration of least error": self.best or None})

    def plot(self, ax: Any = None) -> Any:
        """Draws residual and error of each iteration with matplotlib; returns the axes."""
        from ._show import plot_history
        return plot_history(self, ax)


def _default(kind: str, text: str) -> Any:
    if kind in ("int", "size"):
        return int(text)
    if kind in ("real", "length", "energy"):
        return float(text)
    if kind == "angle":
        return math.radians(float(text))
    if kind == "flag":
        return text == "1"
    return text if kind in ("text", "choice") else None


class Options:
    """A group of options, and the struct with them that the library takes."""

    def __init__(self, group: str) -> None:
        count = ctypes.c_int()
        table = lib.options(group.encode(), ctypes.byref(count))
        if not table:
            raise ImportError(f"tomos: the library has no options for {group!r}")
        self.group = group
        self.rows: dict[str, Row] = {}
        self._table, self._count = table, count.value
        fields: list[tuple[str, Any]] = [("bytes", ctypes.c_size_t)]
        for c in rows_of(table, count.value):
            name, kind = c.name.decode(), _KINDS[c.kind]
            self.rows[name] = Row(name, kind, _default(kind, c.fallback.decode()),
                                  c.values.decode(), c.help.decode())
            fields.append((name, _C_TYPES[kind]))
            if kind in _LISTS:
                fields.append((name + "_count", ctypes.c_int64))
        self.struct = type(group, (ctypes.Structure,), {"_fields_": fields})
        for c in rows_of(table, count.value):
            if getattr(self.struct, c.name.decode()).offset != c.offset:
                raise ImportError(f"tomos: the option {c.name.decode()!r} has another offset in "
                                  "the library")
        for name in self._unmet(self.fill(), self.rows):
            self.rows[name] = self.rows[name]._replace(needs=self.needs(name))

    def _unmet(self, struct: ctypes.Structure, given: Iterable[str],
               facts: str = "") -> Iterable[str]:
        """Those of the given options that have no effect for lack of another."""
        for i, name in enumerate(self.rows):
            bit = ctypes.c_uint64(1 << i)
            if name in given and lib.option_unmet(self._table, self._count, ctypes.byref(struct),
                                                  ctypes.byref(bit), facts.encode()) >= 0:
                yield name

    def bits(self, given: Iterable[str]) -> int:
        """Bit i: row i of the group is given."""
        return sum(1 << i for i, name in enumerate(self.rows) if name in given)

    def needs(self, name: str) -> str:
        """What an option has no effect without, in words."""
        text = ctypes.create_string_buffer(256)
        row = rows_of(self._table, self._count)[list(self.rows).index(name)]
        lib.option_needs(ctypes.byref(row), 0, text, len(text))
        return text.value.decode()

    def pick(self, names: Iterable[str]) -> dict[str, Row]:
        return {name: self.rows[name] for name in names}

    def but(self, *names: str) -> dict[str, Row]:
        return {name: row for name, row in self.rows.items() if name not in names}

    def fill(self, degrees: Optional[bool] = False, facts: str = "",
             **values: Any) -> ctypes.Structure:
        """The struct with these values, else the defaults; it owns the arrays it points to.

        An option that has no effect without another, or without one of the facts ("method=sirt"),
        is rejected.
        """
        struct, unmet = self.fill_unchecked(degrees, facts, **values)
        for name in unmet:
            raise BadValue(f"{name} has no effect without {self.needs(name)}")
        return struct

    def fill_unchecked(self, degrees: Optional[bool] = False, facts: str = "",
                       **values: Any) -> tuple[ctypes.Structure, list[str]]:
        """The struct, and the names of the given options that have no effect."""
        # A flag that is off counts as not given, as on the command line.
        given = [name for name, value in values.items() if value is not None and value is not False]
        struct = self.struct(ctypes.sizeof(self.struct))
        struct.held = []
        for name, row in self.rows.items():
            value = values.pop(name, None)
            _set(struct, row, row.default if value is None else value,
                 bool(degrees) and value is not None)
        if values:
            raise unknown_option(self.group, next(iter(values)), self.rows)
        return struct, list(self._unmet(struct, given, facts)) if given else []


def _set(struct: Any, row: Row, value: Any, degrees: bool) -> None:
    if isinstance(value, str) and value == "auto" and row.values.endswith("|auto") and \
            row.kind in ("real", "reals"):
        value = math.nan
    try:
        if row.kind in _LISTS:
            _set_list(struct, row, value, degrees)
        elif row.kind == "array":
            _set_array(struct, row, value)
        elif row.kind == "history":
            if value is not None:
                struct.held.append(value._struct)
                setattr(struct, row.name, ctypes.pointer(value._struct))
        elif row.kind in ("text", "choice"):
            number = row.kind == "text" and isinstance(value, numbers.Real) and \
                not isinstance(value, bool)
            setattr(struct, row.name, os.fsencode(f"{value:g}" if number and
                                                  float(f"{value:g}") == value else
                                                  repr(float(value)) if number else value))
        elif row.kind == "flag":
            setattr(struct, row.name, bool(value))
        elif row.kind in _PARSERS and isinstance(value, str):
            setattr(struct, row.name, _quantity(row.kind, value))
        elif row.kind in ("int", "size"):
            setattr(struct, row.name, value.__index__())
        else:
            setattr(struct, row.name, math.radians(value) if degrees and row.kind == "angle"
                    else float(value))
    except (AttributeError, TypeError, ValueError) as failure:
        if isinstance(failure, Error) or (isinstance(failure, ValueError) and row.kind == "array"):
            raise
        raise TypeError(f"{row.name}={value!r} is not of the kind expected: "
                        f"{row.described}") from None


def _quantity(kind: str, text: str) -> float:
    """A number with its unit: "1.17um", "20 keV", "2G"."""
    number = _C_TYPES[kind]()
    check(_PARSERS[kind](text.encode(), ctypes.byref(number)))
    return number.value


def _set_list(struct: Any, row: Row, value: Any, degrees: bool) -> None:
    if value is None:
        return
    if row.kind == "lengths":
        some = [value] if np.ndim(value) == 0 else value
        value = [_quantity("length", one) if isinstance(one, str) else one for one in some]
    numbers = np.atleast_1d(np.asarray(value))
    if numbers.ndim != 1 or numbers.dtype.kind not in ("iu" if row.kind == "ints" else "iuf"):
        raise TypeError
    numbers = np.ascontiguousarray(numbers, _LISTS[row.kind])
    if degrees and row.kind == "angles":
        numbers = np.radians(numbers)
    struct.held.append(numbers)
    setattr(struct, row.name, numbers.ctypes.data_as(_C_TYPES[row.kind]))
    setattr(struct, row.name + "_count", len(numbers))


def _set_array(struct: Any, row: Row, value: Any) -> None:
    if value is None:
        return
    view = value if isinstance(value, View) else any_shape(value, row.name)
    struct.held.append(view)
    setattr(struct, row.name, ctypes.pointer(view.struct))


def unknown_option(function: str, name: str, known: Iterable[str]) -> TypeError:
    names = "|".join(known).replace("_", "-").encode()
    near = lib.name_nearest(names, name.replace("_", "-").encode())
    hint = f"; did you mean {near.decode().replace('-', '_')!r}?" if near else ""
    return TypeError(f"{function} has no option {name!r}{hint} (known: {', '.join(known)})")


def with_options(function: Callable, rows: dict[str, Row], doc: str, name: str | None = None,
                 sections: Optional[dict[str, dict[str, Row]]] = None) -> Callable:
    """Gives a function with **options the signature and the description of these rows, under the
    headings of `sections` if given."""
    name = name or function.__name__
    if not name[0].isupper():
        function.__qualname__ = f"tomos.{name}"  # for the errors of Python itself
    signature = inspect.signature(function, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    positional = [p for p in own if p.kind is not p.KEYWORD_ONLY]
    keywords = [p for p in own if p.kind is p.KEYWORD_ONLY]
    names = {p.name for p in own}  # a row with a parameter of its own is only described
    merged = positional + [row.parameter for row in rows.values()
                           if row.name not in names] + keywords

    def wrapper(*arguments, **options):
        for option in options:
            if option not in known:
                raise unknown_option(f"tomos.{name}", option, known)
        return function(*arguments, **options)

    known = [p.name for p in merged]
    wrapper.__signature__ = signature.replace(parameters=merged)
    wrapper.__annotations__ = {p.name: p.annotation for p in merged if p.annotation is not p.empty}
    if signature.return_annotation is not signature.empty:
        wrapper.__annotations__["return"] = signature.return_annotation
    wrapper.__name__ = wrapper.__qualname__ = name
    wrapper.__module__ = "tomos"
    head, _, example = inspect.cleandoc(doc).partition("\n>>>")
    parts = [_section(title, part.values())
             for title, part in (sections or {"Options": rows}).items() if part]
    if example:
        parts.append(f"\n\nExample\n-------\n>>>{example}")
    wrapper.__doc__ = head.rstrip() + "".join(parts) + "\n"
    return wrapper


def _section(title: str, rows: Iterable[Row]) -> str:
    """Rows under a heading, as help() shows them."""
    wrap = textwrap.TextWrapper(96, initial_indent=" " * 4, subsequent_indent=" " * 8,
                                break_long_words=False, break_on_hyphens=False)
    lines = "\n".join(wrap.fill(row.described) for row in rows)
    return f"\n\n{title}\n{'-' * len(title)}\n{lines}"


def describe_class(kind: Any, rows: dict[str, Row], example: str = "") -> None:
    """The same for a class, whose constructor takes the options."""
    made: Any = with_options(kind.__init__, rows, (kind.__doc__ or "") + example, kind.__name__)
    kind.__doc__ = made.__doc__
    kind.__signature__ = made.__signature__.replace(
        parameters=list(made.__signature__.parameters.values())[1:])


GROUPS = {group: Options(group) for group in
          ("scan", "grid", "projector", "phantom", "file", "source", "algebraic", "analytic",
           "matrix", "prep", "axis", "align", "run", "device")}
