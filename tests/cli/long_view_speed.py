#!/usr/bin/env python3
"""Measures `tomos view` in Chromium with sparse volumes of 1024^3 and 2048^3 voxels.

    tests/cli/long_view_speed.py TOMOS [--no-limits]    ends with 1 where a limit is not kept
"""
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

LEAST_FRAMES = 30 # a second; doc/viewer.md has what was measured
MOST_SECONDS = 1

# Moves the wheel over a plane every 16 ms for some time; counts the slices that were drawn.
SCROLL = """async axis => {
    const {state, view} = tomosView, section = view.planes[axis].section, box = section.getBoundingClientRect();
    state.setCross(state.shape.map(n => n / 2 - 50));
    await new Promise(done => setTimeout(done, 1000));
    view.frames.length = 0;
    const start = performance.now();
    await new Promise(done => {
        const timer = setInterval(() => {
            section.dispatchEvent(new WheelEvent("wheel", {deltaY: 100, clientX: box.left + 99, clientY: box.top + 99}));
            if (performance.now() > start + 1500) {
                clearInterval(timer);
                done();
            }
        }, 16);
    });
    const frames = view.frames.filter(f => f.axis === axis), seconds = (performance.now() - start) / 1000;
    return [frames.length / seconds, frames.filter(f => f.complete).length / seconds];
}"""


def make_volume(path, n, filled):
    """Waves in the slices in the middle; the rest is a hole in the file."""
    volume = np.lib.format.open_memmap(path, "w+", np.float32, (n, n, n))
    y, x = np.mgrid[:n, :n].astype(np.float32) / n
    for z in range(n // 2 - filled // 2, n // 2 + filled // 2):
        volume[z] = np.hypot(x - 0.5, y - 0.5) + 0.2 * np.sin(40 * x + z / 9)


@contextmanager
def server(tomos, path):
    process = subprocess.Popen([tomos, "view", str(path), "--no-browser"], stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://\S+", process.stdout.readline())[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)


def wait(page, condition, seconds=30):
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        if time.monotonic() > end:
            sys.exit(f"{condition}: not within {seconds} s")


def first_picture(page, tomos, path):
    """Seconds from the start of the command to the first picture, and until all planes are sharp."""
    start = time.monotonic()
    with server(tomos, path) as address:
        page.goto(address, wait_until="commit")
        wait(page, "!!(window.tomosView && tomosView.view.frames.length)")
        first = time.monotonic() - start
        wait(page, "tomosView.view.settled")
        return first, time.monotonic() - start


def scrolling(page, tomos, path):
    with server(tomos, path) as address:
        page.goto(address)
        wait(page, "!!(window.tomosView && tomosView.view.settled)")
        page.evaluate("document.querySelector('[data-tab=profile]').click()") # no volume rendering on the processor
        return [page.evaluate(SCROLL, axis) for axis in range(3)]


def main():
    tomos, limits = sys.argv[1], "--no-limits" not in sys.argv
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        make_volume(folder / "1024.npy", 1024, 120)
        make_volume(folder / "2048.npy", 2048, 8)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"),
                                                 args=["--no-sandbox", "--headless=new"])
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto("about:blank")
            first, sharp = min(first_picture(page, tomos, folder / "2048.npy") for _ in range(3))
            print(f"2048^3: first picture after {first:.2f} s, all planes sharp after {sharp:.2f} s")
            rates = scrolling(page, tomos, folder / "1024.npy")
            for name, (shown, fine) in zip(("axial", "coronal", "sagittal"), rates):
                print(f"1024^3: {name}: {shown:.0f} slices per second, {fine:.0f} of them at the screen's resolution")
            browser.close()
    finally:
        shutil.rmtree(folder)
    return 1 if limits and (first > MOST_SECONDS or min(rates[0][1], rates[1][0], rates[2][0]) < LEAST_FRAMES) else 0


if __name__ == "__main__":
    sys.exit(main())
