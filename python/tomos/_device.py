"""Backends, opened once, and arrays in their memory."""
from __future__ import annotations

from ._library import lib, new

_backends: dict[str, int] = {}


def open_backend(name: str) -> int:
    """The handle of a backend, opened once and kept."""
    if name not in _backends:
        _backends[name] = new(lib.backend_open, name.encode())
    return _backends[name]
