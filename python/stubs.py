"""Writes the type stubs of the package, whose signatures are made at import.

    stubs.py FILE.pyi    with TOMOS_LIBRARY set to the library
"""
import inspect
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import tomos  # noqa: E402

HEAD = '''"""{doc}"""
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional, Union

import numpy as np
'''


def text(annotation):
    """An annotation as it is written."""
    if annotation is inspect.Parameter.empty:
        return "Any"
    written = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    written = re.sub(r"ForwardRef\('(\w+)'\)", r"\1", written)
    written = re.sub(r"\b(?:typing|collections\.abc|tomos(?:\._\w+)?)\.", "", written)
    return written.replace("numpy.", "np.").replace("NoneType", "None")


def parameters(signature):
    kind = None
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and kind is not p.KEYWORD_ONLY:
            yield "*"
        kind = p.kind
        default = "..." if repr(p.default) in ("inf", "-inf") else repr(p.default)
        given = "" if p.default is p.empty else f" = {default}"
        yield f"{p.name}: {text(p.annotation)}{given}"


def stub(name, thing):
    home = sys.modules[thing.__module__]
    if isinstance(thing, type) or home is not tomos:
        return f"from .{thing.__module__.rpartition('.')[2]} import {name} as {name}"
    signature = inspect.signature(thing)
    doc = inspect.cleandoc(thing.__doc__).replace("\\", "\\\\").replace("\n", "\n    ")
    arguments = ", ".join(parameters(signature))
    return (f"\ndef {name}({arguments}) -> {text(signature.return_annotation)}:\n"
            f'    """{doc}\n    """\n    ...')


def main():
    stubs = [stub(name, getattr(tomos, name)) for name in sorted(tomos.__all__)]
    imports = [s for s in stubs if s.startswith("from")]
    functions = [s for s in stubs if not s.startswith("from")]
    body = [HEAD.format(doc=tomos.__doc__.strip()), *imports, "", "__version__: str", *functions]
    Path(sys.argv[1]).write_text("\n".join(body) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
