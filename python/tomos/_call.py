"""Long calls of the library: cancelled by Ctrl-C, with progress and callbacks."""
from __future__ import annotations

import ctypes
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

from ._library import _EXCEPTIONS, REPORT, Cancelled, CancelStruct, ProgressStruct, check, lib

#: Called with (stage, done, total, value); a true result cancels.
Report = Callable[[str, int, int, float], Any]

_PATIENCE = 0.9  # seconds to wait for a call to end after Ctrl-C


def call(function: Callable, *arguments: Any, report: Optional[Report] = None,
         progress: bool = False, keep: Any = None, wait: bool = False) -> None:
    """Calls the library so that Ctrl-C cancels it; `progress`: it takes a tomos_progress as well.

    `report` runs in the caller's thread; its exceptions are raised here once the call has ended. A
    call that has not ended _PATIENCE seconds after Ctrl-C continues in its thread, which keeps the
    objects in `keep` alive; with `wait`, needed where the caller closes a handle, its end is waited
    for.
    """
    if threading.current_thread() is threading.main_thread():
        _call_beside(function, arguments, report, progress, keep, None if wait else _PATIENCE)
    else:
        _call_here(function, arguments, report, progress)


def _call_here(function, arguments, report, progress) -> None:
    failure: list[BaseException] = []

    def reported(_, stage, done, total, value):
        try:
            return 1 if report and report(stage.decode(), done, total, value) else 0
        except BaseException as raised:  # exceptions cannot cross C code
            failure.append(raised)
            return 1

    status = function(*arguments, *_progress(reported, progress))
    if failure:
        raise failure[0]
    check(status)


def _progress(reported: Callable, wanted: bool) -> list:
    return [ctypes.byref(ProgressStruct(REPORT(reported), None))] if wanted else []


class _Work:
    """A call in a thread of its own, so that the main thread can handle signals."""

    def __init__(self, function, arguments, reports: bool, progress: bool, keep: Any) -> None:
        self.cancel = CancelStruct()
        self.events: queue.SimpleQueue = queue.SimpleQueue()
        self.answers: queue.SimpleQueue = queue.SimpleQueue()
        self.reports, self.keep = reports, keep
        self.status, self.message = 0, ""
        self.thread = threading.Thread(target=self._run, args=(function, arguments, progress),
                                       daemon=True)

    def _run(self, function, arguments, progress) -> None:
        lib.cancel_on(ctypes.byref(self.cancel))
        self.status = function(*arguments, *_progress(self._reported, progress))
        if self.status:
            self.message = lib.message().decode()
        lib.cancel_on(None)
        self.events.put(None)

    def _reported(self, _, stage, done, total, value) -> int:
        cancelled = lib.cancel_raised(ctypes.byref(self.cancel))
        if cancelled or not self.reports:
            return cancelled
        self.events.put((stage.decode(), done, total, value))
        return self.answers.get()

    def stop(self, patience: Optional[float]) -> None:
        lib.cancel_raise(ctypes.byref(self.cancel))
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
    """A progress bar: tqdm's where it is installed, else a line on the terminal."""

    def __init__(self) -> None:
        self.bar: Any = None
        self.stage, self.printed, self.open = "", 0.0, False

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
        elif done == total or time.monotonic() - self.printed > 0.1:
            self.printed, self.open = time.monotonic(), True
            steps = f"{done} of {total}" if total else "running"
            print(f"\r{stage}: {steps}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        elif self.open:
            print(file=sys.stderr)
        self.bar, self.open = None, False


def run(function: Callable, *arguments: Any, show: bool = False,
        callback: Optional[Callable[[int, float], Any]] = None, of: str = "",
        keep: Any = None) -> bool:
    """A call with a progress bar and a callback (steps done, value) for the stage `of`; False if
    the callback stopped it."""
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
