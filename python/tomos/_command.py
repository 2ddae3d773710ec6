"""The command `tomos`, from the package."""
import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).parent / "bin" / "tomos"
    os.execv(program, ["tomos", *sys.argv[1:]])
