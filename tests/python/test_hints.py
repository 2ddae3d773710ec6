"""The type stubs that are installed with the package have the signatures of its functions."""
import ast
import inspect
from pathlib import Path

import pytest
import tomos

STUBS = Path(tomos.__file__).with_name("__init__.pyi")


@pytest.mark.skipif(not STUBS.exists(),
                    reason="the package is not installed, so there are no stubs")
def test_hints():
    text = STUBS.read_text()
    exec(compile(text, STUBS, "exec"), {"__package__": "tomos", "__name__": "tomos"})
    tree = ast.parse(text)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    names = set(functions) | {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom)
                              for alias in node.names}
    assert set(tomos.__all__) <= names and "sirt" in functions and "recon" not in functions
    for name, node in functions.items():
        arguments = [a.arg for a in node.args.args + node.args.kwonlyargs]
        assert arguments == list(inspect.signature(getattr(tomos, name)).parameters)
        assert ast.get_docstring(node) == inspect.cleandoc(getattr(tomos, name).__doc__)


def test_every_public_function_is_typed():
    for name in tomos.__all__:
        thing = getattr(tomos, name)
        if not isinstance(thing, type):
            hints = inspect.get_annotations(thing)
            assert "return" in hints and set(inspect.signature(thing).parameters) < set(hints), name
