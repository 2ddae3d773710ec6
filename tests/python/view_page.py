"""What the tests of the page of `tomos view` share: a server, a page of a browser, pictures as they should be."""
import base64
import re
import signal
import subprocess
import time
from contextlib import contextmanager

import numpy as np
import pytest
import tomos
from conftest import COMMAND

SHAPE = (20, 24, 28)
SIZE = {"width": 1280, "height": 800}
READY = "!!(window.tomosView && tomosView.view.settled)"


def write_scan(path):
    """Counts of a phantom with flat and dark field, as a beam line writes them."""
    h5py = pytest.importorskip("h5py", reason="there is no h5py to write a scan")
    angles = np.linspace(0, np.pi, 90, endpoint=False)
    scan = tomos.parallel(angles, rows=8, columns=64)
    integrals = tomos.Phantom("random", radius=28, count=9).project(scan)
    with h5py.File(path, "w") as file:
        file["exchange/data"] = (100 + 10000 * np.exp(-0.02 * integrals)).astype(np.uint16)
        file["exchange/data_white"] = np.full((2, 8, 64), 10100, np.uint16)
        file["exchange/data_dark"] = np.full((2, 8, 64), 100, np.uint16)
        file["exchange/theta"] = np.degrees(angles)


@contextmanager
def server(*words):
    """The address that the command prints."""
    process = subprocess.Popen([str(COMMAND), "view", *map(str, words), "--no-browser"], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            found = re.search(r"http://127\.0\.0\.1:\d+/\w+/", line)
            if found:
                break
        else:
            text = "".join(lines)
            if "libmicrohttpd" in text:
                pytest.skip("this tomos was built without its server")
            pytest.fail(text)
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            process.stdout.close()


class Page:
    """A page of the browser, which must not ask for anything from elsewhere nor report an error."""

    def __init__(self, browser, address, render=False, **settings):
        self.page = browser.new_page(viewport=SIZE, accept_downloads=True, **settings)
        self.page.set_default_timeout(120000) # the machine may be busy
        self.faults = []
        self.page.on("console", lambda m: m.type == "error" and self.faults.append(m.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda r: r.url.startswith((address, "blob:", "data:")) or self.faults.append(r.url))
        self.page.goto(address)
        self.wait("!!window.tomosView")
        if not render: # on the processor a volume rendering takes longer than the rest of a test
            self.page.click("[data-tab='profile']")
        self.settle()

    def js(self, text, argument=None):
        return self.page.evaluate(text, argument)

    def wait(self, condition, seconds=60):
        """Waits for an expression of JavaScript; Playwright's own waiting needs eval, which the page forbids."""
        end = time.monotonic() + seconds
        while not self.js(condition):
            assert time.monotonic() < end, f"{condition}: not within {seconds} s; {self.faults}"
            self.page.wait_for_timeout(10)

    def settle(self):
        self.wait(READY)

    def state(self, name):
        return self.js(f"tomosView.state.{name}")

    def box(self, axis):
        return self.page.locator(f".plane[data-axis='{axis}']").bounding_box()

    def picture(self, axis):
        """The pixels of a plane, rows x columns x RGB."""
        self.settle()
        width, height, data = self.js("""axis => {
            const canvas = tomosView.view.planes[axis].image;
            const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let text = "";
            for (let i = 0; i < image.data.length; i += 8192)
                text += String.fromCharCode(...image.data.subarray(i, i + 8192));
            return [canvas.width, canvas.height, btoa(text)];
        }""", axis) # as a list the numbers would take a minute
        return np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4)[..., :3]

    def cells(self, axis, rows, columns, half=None):
        """Grey values in the middle of each voxel: the picture is grey, what is around it is not."""
        picture = self.picture(axis)
        if half is not None:
            middle = picture.shape[1] // 2
            picture = picture[:, :middle - 2] if half == 0 else picture[:, middle + 2:]
        grey = (picture[..., 0] == picture[..., 1]) & (picture[..., 1] == picture[..., 2])
        ys, xs = np.flatnonzero(grey.any(axis=1)), np.flatnonzero(grey.any(axis=0))
        y = ys[0] + ((np.arange(rows) + 0.5) * (ys[-1] + 1 - ys[0]) / rows).astype(int)
        x = xs[0] + ((np.arange(columns) + 0.5) * (xs[-1] + 1 - xs[0]) / columns).astype(int)
        return picture[np.ix_(y, x)][..., 0].astype(int)

    def at(self, axis, row, column):
        """Point of the screen over a voxel of a plane, from the zoom and the middle of the picture."""
        box, state = self.box(axis), self.js("({zoom: tomosView.state.zoom, s: tomosView.state.geometry.spacing})")
        h, v = [(2, 1), (2, 0), (1, 0)][axis]
        up = -1 if axis else 1
        return (box["x"] + box["width"] / 2 + (column - (SHAPE[h] - 1) / 2) * state["zoom"] * state["s"][h],
                box["y"] + box["height"] / 2 + up * (row - (SHAPE[v] - 1) / 2) * state["zoom"] * state["s"][v])

    def drag(self, axis, first, *places):
        """Moves over voxels (row, column) of a plane with the button held down."""
        self.page.mouse.move(*self.at(axis, *first))
        self.page.mouse.down()
        for place in places:
            self.page.mouse.move(*self.at(axis, *place))
        self.page.mouse.up()

    def close(self):
        faults = self.faults
        self.page.close()
        assert not faults


def planes(volume, z, y, x):
    """As `tomos show` draws them: y downwards in the first, z upwards in the others."""
    return [volume[z], volume[::-1, y, :], volume[::-1, :, x]]


def bytes_of(values, low, high):
    return np.clip(np.floor((values - low) / (high - low) * 255 + 0.5), 0, 255).astype(int)


def check_planes(page, volume, low, high, places):
    for axis, wanted in enumerate(planes(volume, *places)):
        shown = page.cells(axis, *wanted.shape)
        assert np.abs(shown - bytes_of(wanted, low, high)).max() <= 1, f"plane {axis}"


def set_window(page, low, high):
    for name, value in (("low", low), ("high", high)):
        page.page.fill(f"#window-{name}", str(value))
        page.page.press(f"#window-{name}", "Enter")
    page.page.locator(".plane").first.focus()
