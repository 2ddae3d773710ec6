"""The examples of docstrings and of the README run; every public name has both."""
import doctest
import re
from pathlib import Path

import numpy as np
import pytest
import tomos

ROOT = Path(__file__).resolve().parents[2]
# Exceptions and plain records need no example.
PLAIN = {"Difference", "Info", "Pose", "RunReport"} | {name for name in tomos.__all__
         if isinstance(getattr(tomos, name), type) and issubclass(getattr(tomos, name), Exception)}


def members(thing):
    yield thing
    if isinstance(thing, type):
        for member in vars(thing).values():
            member = getattr(member, "__func__", member)
            if getattr(member, "__doc__", None) and callable(member):
                yield member


@pytest.mark.parametrize("name", sorted(tomos.__all__))
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = tomos.threads()
    count = 0
    for thing in members(getattr(tomos, name)):
        assert thing.__doc__, thing
        test = doctest.DocTestParser().get_doctest(thing.__doc__, {"tomos": tomos, "np": np}, name,
                                                   None, 0)
        failures = []
        doctest.DocTestRunner(verbose=False).run(test, out=failures.append)
        assert not failures, "".join(failures)
        count += len(test.examples)
    tomos.threads(before)
    assert count > 0 or name in PLAIN, f"tomos.{name} has no example"


def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


def test_version():
    header = (ROOT / "include" / "tomos.h").read_text()
    assert f'#define TOMOS_VERSION "{tomos.__version__}"' in header
