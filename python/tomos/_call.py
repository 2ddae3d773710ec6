"""Long calls of the library: Ctrl-C stops them, progress and callbacks come out of them."""
from __future__ import annotations

import ctypes
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

from ._library import REPORT, Cancelled, ProgressStruct, _EXCEPTIONS, check, lib

#: Called with (stage, done, total, value); a true result cancels.
Report = Callable[[str, int, int, float], Any]

_PATIENCE = 0.9  # seconds for a call to end after Ctrl-C, before it is left to end by itself


def call(function: Callable, *arguments: Any, report: Optional[Report] = None,
         progress: bool = False, keep: Any = None, wait: bool = False) -> None:
    """Calls the library so that Ctrl-C stops it; `progress` says that it takes a tomos_progress.

    `report` runs in the caller's thread. What it raises comes out of here, after the call ended. After
    Ctrl-C, a call that does not end soon is left to end by itself with what is in `keep`; with `wait`, for
    handles that the caller closes, it is waited for.
    """
    if threading.current_thread() is threading.main_thread():
        _call_beside(function, arguments, report, progress, keep, None if wait else _PATIENCE)
    else:
        _call_here(function, arguments, report, progress)


def _call_here(function, arguments, report, progress) -> None:
    failure: list[BaseException] = []

    def told(_, stage, done, total, value):
        try:
            return 1 if report and report(stage.decode(), done, total, value) else 0
        except BaseException as raised:  # it may not pass through the library
            failure.append(raised)
            return 1

    status = function(*arguments, *_progress(told, progress))
    if failure:
        raise failure[0]
    check(status)


def _progress(told: Callable, wanted: bool) -> list:
    return [ctypes.byref(ProgressStruct(REPORT(told), None))] if wanted else []


class _Work:
    """A call in a thread of its own, while the main thread stays open to signals."""

    def __init__(self, function, arguments, tells: bool, progress: bool, keep: Any) -> None:
        self.cancel = ctypes.c_int(0)
        self.events: queue.SimpleQueue = queue.SimpleQueue()
        self.answers: queue.SimpleQueue = queue.SimpleQueue()
        self.tells, self.keep = tells, keep
        self.status, self.message = 0, ""
        self.thread = threading.Thread(target=self._run, args=(function, arguments, progress),
                                       daemon=True)

    def _run(self, function, arguments, progress) -> None:
        lib.cancel_on(ctypes.byref(self.cancel))
        self.status = function(*arguments, *_progress(self._told, progress))
        if self.status:
            self.message = lib.message().decode()
        lib.cancel_on(None)
        self.events.put(None)

    def _told(self, _, stage, done, total, value) -> int:
        if self.cancel.value or not self.tells:
            return self.cancel.value
        self.events.put((stage.decode(), done, total, value))
        return self.answers.get()

    def stop(self, patience: Optional[float]) -> None:
        self.cancel.value = 1
        self.answers.put(1)
        self.thread.join(patience)


def _call_beside(function, arguments, report, progress, keep, patience) -> None:
    work = _Work(function, arguments, report is not None, progress, keep)
    work.thread.start()
    try:
        while (event := work.events.get()) is not None:
            work.answers.put(1 if report(*event) else 0)
    except BaseException:
        work.stop(patience)
        raise
    work.thread.join()
    if work.status:
        raise _EXCEPTIONS[work.status](work.message)


class Bar:
    """A progress bar: tqdm's where it is installed, else a line that is written over."""

    def __init__(self) -> None:
        self.bar: Any = None
        self.stage, self.told, self.open = "", 0.0, False

    def __call__(self, stage: str, done: int, total: int, value: float) -> None:
        if stage != self.stage:
            self.close()
            self.stage = stage
            try:
                from tqdm.auto import tqdm
                self.bar = tqdm(total=total or None, desc=stage)
            except ImportError:
                self.bar = None
        if self.bar is not None:
            self.bar.update(done - self.bar.n)
        elif done == total or time.monotonic() - self.told > 0.1:
            self.told, self.open = time.monotonic(), True
            steps = f"{done} of {total}" if total else "at work"
            print(f"\r{stage}: {steps}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        elif self.open:
            print(file=sys.stderr)
        self.bar, self.open = None, False


def run(function: Callable, *arguments: Any, show: bool = False,
        callback: Optional[Callable[[int, float], Any]] = None, of: str = "", keep: Any = None) -> bool:
    """A call with a progress bar and a callback (steps done, value) for the stage `of`; False when the
    callback stopped it."""
    bar = Bar() if show else None
    stopped = False

    def report(stage: str, done: int, total: int, value: float) -> bool:
        nonlocal stopped
        if bar:
            bar(stage, done, total, value)
        stopped = bool(callback and stage == of and done > 0 and callback(done, value))
        return stopped

    try:
        call(function, *arguments, progress=True, report=report if bar or callback else None,
             keep=keep)
    except Cancelled:
        if not stopped:
            raise
    finally:
        if bar:
            bar.close()
    return not stopped
