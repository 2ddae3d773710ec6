"""The page of `tomos view` in a browser: Chromium of the distribution, driven by Playwright."""
import csv
import io
import re
import shutil

import numpy as np
import pytest
from conftest import COMMAND, command
from view_page import SHAPE, Page, bytes_of, check_planes, server, set_window, write_scan

sync_api = pytest.importorskip("playwright.sync_api", reason="there is no playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
              pytest.mark.skipif(COMMAND is None, reason="there is no command")]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--headless=new", "--enable-unsafe-swiftshader"]
        try:
            chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        except sync_api.Error as error: # a stub for another kind of package, or a machine that forbids it
            pytest.skip(f"{CHROMIUM} does not start: {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two volumes of random values, so that every voxel has its own, and a scan."""
    folder = tmp_path_factory.mktemp("view")
    rng = np.random.default_rng(5)
    first = rng.random(SHAPE, np.float32)
    np.save(folder / "first.npy", first)
    np.save(folder / "second.npy", first + 0.1 * rng.standard_normal(SHAPE).astype(np.float32))
    return folder


@pytest.fixture
def show(browser):
    """Opens files in a page; at the end no page may have found fault."""
    pages, contexts = [], []

    def start(*files, **settings):
        context = server(*files)
        address = context.__enter__()
        contexts.append(context)
        pages.append(Page(browser, address, **settings))
        return pages[-1]

    yield start
    try:
        for page in pages:
            page.close()
    finally:
        for context in contexts:
            context.__exit__(None, None, None)


def test_planes_keys_and_mouse(show, folder):
    """Planes have the values of the file; keys, wheel and drags change what is shown."""
    volume, page = np.load(folder / "first.npy"), show(folder / "first.npy")
    set_window(page, 0, 1)
    check_planes(page, volume, 0, 1, (10, 12, 14))
    mouse, keyboard = page.page.mouse, page.page.keyboard

    mouse.move(*page.at(0, 5, 7))
    for _ in range(3):
        mouse.wheel(0, 100)
    page.wait("tomosView.state.cross[0] === 13")
    keyboard.press("PageDown")
    keyboard.press(",")
    assert page.state("cross") == [11, 12, 14]
    keyboard.press("<")
    assert page.state("cross[0]") == 1
    keyboard.press(">")
    mouse.wheel(0, 200) # two notches that the browser has merged
    page.wait("tomosView.state.cross[0] === 13")
    keyboard.down("Shift")
    mouse.wheel(-100, 0) # as Chromium reports a wheel with Shift
    keyboard.up("Shift")
    page.wait("tomosView.state.cross[0] === 3")
    page.js("tomosView.state.moveCross(0, 8)")
    check_planes(page, volume, 0, 1, (11, 12, 14))
    page.wait("!/[≈…]/.test(document.getElementById('status-value').textContent)")
    assert "x 7  y 5  z 11" in page.page.inner_text("#status-place")
    assert abs(float(page.page.inner_text("#status-value").split()[1]) - volume[11, 5, 7]) < 1e-5

    mouse.click(*page.at(1, 3, 20))
    assert page.state("cross") == [3, 12, 20]
    keyboard.press("ArrowUp") # z is drawn upwards
    keyboard.press("Shift+ArrowLeft")
    assert page.state("cross") == [4, 12, 10]
    check_planes(page, volume, 0, 1, (4, 12, 10))

    zoom, point = page.state("zoom"), page.at(0, 6, 9)
    mouse.move(*point)
    keyboard.down("Control")
    mouse.wheel(0, -100)
    keyboard.up("Control")
    page.wait(f"tomosView.state.zoom > {1.2 * zoom}")
    mouse.move(point[0] + 1, point[1])
    assert "x 9  y 6" in page.page.inner_text("#status-place") # the voxel under the pointer stays there
    keyboard.press("-")
    page.wait(f"tomosView.state.zoom < {1.1 * zoom}")
    centre = page.state("centre")
    mouse.down(button="right")
    mouse.move(point[0] + 41, point[1] + 30)
    mouse.up(button="right")
    scale = page.state("zoom") * page.js("tomosView.state.geometry.spacing[2]")
    moved = np.array(page.state("centre")) - centre
    assert np.allclose(moved, [0, -30 / scale, -40 / scale], atol=1e-6)
    keyboard.down(" ")
    assert page.js("tomosView.mouse.space")
    page.page.focus("#window-low")
    keyboard.up(" ")
    assert not page.js("tomosView.mouse.space")
    page.page.locator(".plane").first.focus()
    keyboard.down(" ")
    page.js("dispatchEvent(new Event('blur'))")
    assert not page.js("tomosView.mouse.space")
    keyboard.up(" ")
    keyboard.press("0")
    check_planes(page, volume, 0, 1, (4, 12, 10))
    keyboard.press("i")
    page.settle()
    assert np.abs(page.cells(0, 24, 28) - bytes_of(1 - volume[4], 0, 1)).max() <= 1


def test_window_and_level(show, folder):
    """Typed numbers, automatic window, handles of the histogram and a drag with Shift."""
    volume, page = np.load(folder / "first.npy"), show(folder / "first.npy")
    set_window(page, 0.25, 0.5)
    check_planes(page, volume, 0.25, 0.5, (10, 12, 14))
    page.page.click("#window-auto")
    low, high = page.state("window.low"), page.state("window.high")
    assert 0 <= low < 0.01 and 0.99 < high <= 1
    box = page.page.locator("#histogram").bounding_box()
    mouse = page.page.mouse
    mouse.move(box["x"] + box["width"] - 10, box["y"] + 30)
    mouse.down()
    mouse.move(box["x"] + box["width"] / 2, box["y"] + 30)
    mouse.up()
    assert page.state("window.low") == low and abs(page.state("window.high") - 0.5) < 0.02
    check_planes(page, volume, low, page.state("window.high"), (10, 12, 14))
    before = page.state("window")
    mouse.move(*page.at(0, 12, 14))
    page.page.keyboard.down("Shift")
    mouse.down()
    x, y = page.at(0, 12, 14)
    mouse.move(x + 60, y)
    mouse.up()
    page.page.keyboard.up("Shift")
    after = page.state("window")
    assert after["high"] - after["low"] > 1.3 * (before["high"] - before["low"])
    assert page.state("cross") == [10, 12, 14]


def test_region(show, folder):
    """A rectangle has the mean, the deviation and the range of its voxels, also on the next slice."""
    volume, page = np.load(folder / "first.npy"), show(folder / "first.npy", folder / "second.npy")
    page.page.click("[data-mode='a']")
    page.page.keyboard.press("r")
    page.drag(0, (14, 20), (9, 8), (8, 5))
    second = np.load(folder / "second.npy")
    for z in (10, 11):
        page.wait(f"tomosView.region.results && Math.abs(tomosView.region.results[0].mean - {volume[z, 8:15, 5:21].mean()}) < 1e-6")
        for found, data in zip(page.js("tomosView.region.results"), (volume, second)):
            part = data[z, 8:15, 5:21].astype(float)
            assert [found[k] for k in ("count", "mean", "deviation", "low", "high")] == pytest.approx(
                [part.size, part.mean(), part.std(ddof=1), part.min(), part.max()], rel=1e-6)
        page.page.keyboard.press("PageUp")
    assert "16 × 7 voxels" in page.page.inner_text("#region-text")
    assert page.page.locator("#region-table tr").count() == 6
    page.page.keyboard.press("Escape")
    page.wait("tomosView.region.results === null")
    assert page.page.is_visible("#region-note")


def test_slice_boxes_and_colour_bar(show, folder):
    """A number that is typed is the slice; the bar has the colours of the window from top to bottom."""
    volume, page = np.load(folder / "first.npy"), show(folder / "first.npy")
    set_window(page, 0, 1)
    for axis, number in ((0, "3"), (1, "999"), (2, "0")):
        page.page.fill(f".plane[data-axis='{axis}'] .index", number)
        page.page.press(f".plane[data-axis='{axis}'] .index", "Enter")
    assert page.state("cross") == [3, 23, 0]
    check_planes(page, volume, 0, 1, (3, 23, 0))
    page.page.keyboard.press("PageUp") # the keys are those of the planes again
    assert page.state("cross") == [3, 23, 1] and page.page.input_value(".plane[data-axis='2'] .index") == "1"
    bar = page.js("""() => {
        const canvas = tomosView.view.planes[0].overlay, data = canvas.getContext("2d")
            .getImageData(canvas.width - 12, 0, 1, canvas.height).data;
        return Array.from({length: canvas.height}, (_, y) => [data[4 * y], data[4 * y + 3]]);
    }""")
    column = [grey for grey, alpha in bar if alpha == 255]
    assert len(column) > 80 and max(column) == 255 and min(column) < 3
    assert all(a >= b - 1 for a, b in zip(column[column.index(255):], column[column.index(255) + 1:]))
    page.page.keyboard.press("k")
    page.settle()
    assert page.js("tomosView.view.planes[0].overlay.getContext('2d').getImageData("
                   "tomosView.view.planes[0].overlay.width - 12, 60, 1, 1).data[3]") == 0


def test_profile(show, folder):
    """A line along a row has the values of the row; they are saved as CSV."""
    volume, page = np.load(folder / "first.npy"), show(folder / "first.npy")
    page.page.keyboard.press("l")
    page.drag(0, (8, 3), (8, 12), (8, 22))
    page.wait("tomosView.profile.data && tomosView.profile.data.points.length === 20")
    assert np.allclose(page.js("tomosView.profile.data.values[0]"), volume[10, 8, 3:23], rtol=1e-6)
    with page.page.expect_download() as download:
        page.page.click("#profile-csv")
    rows = list(csv.reader(io.StringIO(download.value.path().read_text())))
    assert rows[0][1:] == ["x", "y", "z", "value"]
    assert np.allclose(np.array(rows[1:], float)[:, 1:], np.c_[np.arange(3, 23), np.full(20, 8), np.full(20, 10),
                                                             volume[10, 8, 3:23]], rtol=1e-6)
    page.js("tomosView.state.set('line', {axis: 1, from: [2, 12, 4], to: [8, 12, 10]}, 'line')") # a diagonal
    page.wait("tomosView.profile.data.points.length === 7")
    assert np.allclose(page.js("tomosView.profile.data.values[0]"), [volume[2 + i, 12, 4 + i] for i in range(7)], rtol=1e-6)


def test_two_volumes(show, folder):
    """Side by side, one of them, and the difference."""
    first, second = np.load(folder / "first.npy"), np.load(folder / "second.npy")
    page = show(folder / "first.npy", folder / "second.npy")
    set_window(page, 0, 1)
    for half, volume in enumerate((first, second)):
        assert np.abs(page.cells(0, 24, 28, half) - bytes_of(volume[10], 0, 1)).max() <= 1
    page.page.keyboard.press("d")
    page.wait("tomosView.state.mode === 'difference' && tomosView.view.settled && tomosView.histogram.difference")
    low, high = page.state("differenceWindow.low"), page.state("differenceWindow.high")
    assert low == -high and 0.2 < high < 0.5
    page.page.select_option("#map", "grey")
    page.page.click("#zoom-fit")
    check_planes(page, first - second, low, high, (10, 12, 14))
    page.page.keyboard.press("b")
    page.wait("tomosView.state.mode === 'a'")
    page.page.keyboard.press("b")
    check_planes(page, second, 0, 1, (10, 12, 14))
    # Volumes of other shapes: a part of the first with voxels twice as large, by coordinates; else by extent.
    shifts = page.js("""async () => {
        const {indexMap} = await import(new URL("geometry.js", location.href));
        const a = {shape: [20, 24, 28], unit: "mm", step: [1, -1, 1], origin: [-9.5, 11.5, -13.5]};
        const b = {shape: [5, 6, 7], unit: "mm", step: [2, -2, 2], origin: [-4, 5, -6]};
        const list = maps => maps.map(m => [m.scale, m.shift]);
        return [list(indexMap(a, b)), list(indexMap({...a, unit: ""}, b)), list(indexMap(a, a))];
    }""")
    assert np.allclose(shifts[0], [[0.5, -2.75], [0.5, -3.25], [0.5, -3.75]])
    assert np.allclose(shifts[1], [[0.25, -0.375]] * 3)
    assert shifts[2] == [[1, 0]] * 3


def test_volumes_of_other_shapes(show, folder):
    """The second of two volumes of different shapes: profile, readout and rendering are its own."""
    small = np.random.default_rng(6).random((10, 12, 21), np.float32)
    np.save(folder / "small.npy", small)
    page = show(folder / "first.npy", folder / "small.npy")
    page.page.keyboard.press("b")
    page.page.keyboard.press("b")
    assert page.state("mode") == "b"
    page.js("tomosView.state.set('line', {axis: 0, from: [10, 8, 3], to: [10, 8, 20]}, 'line')")
    page.wait("!!tomosView.profile.data")
    columns = (np.arange(3, 21) + 0.5) * 21 / 28 - 0.5
    rows = [np.interp(columns, np.arange(21), small[5, y]) for y in (3, 4)]
    assert np.allclose(page.js("tomosView.profile.data.values[1]"), 0.25 * rows[0] + 0.75 * rows[1], rtol=1e-5)
    if page.js("!!tomosView.render.gl"):
        page.js("""() => {
            const {gl} = tomosView.render, set = gl.uniform3f.bind(gl);
            gl.uniform3f = (at, ...box) => { window.lastBox = box; set(at, ...box); };
        }""")
        page.page.click("[data-tab='render']")
        page.wait("tomosView.render.loaded === 1 && !!window.lastBox && tomosView.render.note.textContent === ''")
        box = np.array(page.js("window.lastBox"))
        assert np.allclose(box / box[2], [2.1, 1.2, 1])
        page.page.click("[data-tab='profile']")
    page.js("tomosView.state.maps[1].forEach(map => Object.assign(map, {scale: 1, shift: -5}))")
    page.js("tomosView.state.set('line', {axis: 0, from: [10, 8, 3], to: [10, 8, 12]}, 'line')")
    page.wait("tomosView.profile.data.points.length === 10")
    values = np.array(page.js("tomosView.profile.data.values[1]"), float)
    assert np.isnan(values[:2]).all() and np.allclose(values[2:], small[5, 3, :8])
    # Read at once: a picture drawn later shows the value at the crosshair again.
    assert page.js("() => { tomosView.readout.update([10, 8, 2]); return tomosView.readout.valueText.textContent; }"
                   ).endswith("B outside")


def test_values_that_are_not_numbers(show, folder):
    """A difference with NaN has a histogram of the others."""
    volume = np.load(folder / "second.npy")
    volume[10, 3, 4] = np.nan
    np.save(folder / "nan.npy", volume)
    page = show(folder / "first.npy", folder / "nan.npy")
    page.page.keyboard.press("d")
    page.wait("!!tomosView.histogram.difference")
    found = page.js("tomosView.histogram.difference")
    assert len(found["counts"]) == 128 and -1 < found["low"] < 0 < found["high"] < 1


def test_requests(show, folder):
    """Levels that fit, a cache that is too small, errors of the server."""
    page = show(folder / "first.npy")
    picked = page.js("""async () => {
        const {pickLevel} = await import(new URL("tiles.js", location.href));
        const file = {levels: [1, 2.0005, 3, 6, 8].map(f => ({factor: [f, f, f]}))};
        return [1, 2, 4, 8, 16].map(step => pickLevel(file, {h: 2, v: 1}, step, step).factor[0]);
    }""")
    assert picked == [1, 2.0005, 2.0005, 8, 8] # with a factor of 3 the samples would be elsewhere

    requests = []
    page.page.on("request", lambda request: requests.append(request.url))
    page.js("tomosView.view.store.most = 8 * 1024")
    page.page.mouse.move(*page.at(0, 5, 7))
    page.page.mouse.wheel(0, 100)
    page.wait("tomosView.state.cross[0] === 11")
    page.settle()
    for _ in range(20): # tiles beside the plane may take a while; then nothing is asked for again
        requests.clear()
        page.page.wait_for_timeout(500)
        if not requests:
            break
    assert requests == []

    message = "document.getElementById('status-message').textContent"
    page.js("""() => {
        const real = window.fetch;
        window.busy = 0;
        window.fetch = async (path, options) => {
            if (!String(path).includes("box?") || window.busy === 3)
                return real(path, options);
            window.busy++;
            return new Response('{"error": "no memory for the answer"}', {status: 503});
        };
        tomosView.state.setCross([2, 3, 4]);
    }""")
    page.wait(f"window.busy === 3 && {message} === 'no memory for the answer'")
    page.settle()
    for error, text in (("new TypeError('Failed to fetch')", "No answer"), ("new TypeError('a is null')", "a is null")):
        page.js(f"tomosView.saver.report({error})")
        assert page.js(message).startswith(text)


def test_axis_is_found(show, folder):
    """A scan that does not say its axis opens with the one that tomos center finds; what the user sets stays."""
    h5py = pytest.importorskip("h5py", reason="there is no h5py to write a scan")
    write_scan(folder / "off.h5")
    with h5py.File(folder / "off.h5", "r+") as file:
        for name in ("data", "data_white", "data_dark"):
            part = file[f"exchange/{name}"][..., 6:]
            del file[f"exchange/{name}"]
            file[f"exchange/{name}"] = part
    page = show(folder / "off.h5")
    page.page.click("[data-tab='axis']")
    page.wait("!!(tomosView.live && Math.abs(tomosView.live.axis - 25.5) < 0.2)")
    page.wait("Math.abs(tomosView.live.slice.axis - 25.5) < 0.2 && !tomosView.live.running")
    page.page.fill("#axis-value", "28")
    page.page.press("#axis-value", "Enter")
    page.page.click("#axis-reset")
    assert page.js("tomosView.live.axis") == pytest.approx(25.5, abs=0.2)
    page.wait("tomosView.live.current && !tomosView.live.running")
    # What changes while the panel is hidden is shown when it is opened again.
    page.page.click("[data-tab='profile']")
    page.js("tomosView.live.set(27)")
    page.page.wait_for_timeout(200)
    assert page.js("tomosView.live.slice.axis") == pytest.approx(25.5, abs=0.2)
    page.page.click("[data-tab='axis']")
    page.wait("tomosView.live.slice.axis === 27")


def test_direction_of_a_fan_beam(show, folder):
    """Angles of the wrong sign are negated before the first slice is shown, and the option to copy says so."""
    words = ["--geometry", "fan", "--source-axis", "6", "--source-detector", "9", "--pixel", "0.05"]
    command("project", "shepp-logan-2d-modified", *words, "--columns", 80, "--views", 120, "-o", folder / "fan.h5")
    command("convert", folder / "fan.h5", folder / "fan.npy")
    words += ["--arc", "-360"]
    page = show(folder / "fan.npy", *words)
    page.page.click("[data-tab='axis']")
    page.wait("!!(tomosView.live && tomosView.live.slice)")
    assert "The angles are negated" in page.page.inner_text("#axis-said")
    options = page.page.inner_text("#axis-option").split()
    assert options[0] == "--axis" and options[2:] == ["--reverse"]
    page.wait("tomosView.live.current && !tomosView.live.running")
    command("recon", folder / "fan.npy", *words, *options, "-o", folder / "fan_rec.npy")
    wanted = np.load(folder / "fan_rec.npy").ravel()
    shown = np.array(page.js("Array.from(tomosView.live.slice.data)"))
    assert np.abs(shown - wanted).max() < 1e-4 * np.abs(wanted).max()


def test_scan_with_live_axis(show, folder):
    """Planes of a scan, and the slider of the axis, which reconstructs a slice again."""
    write_scan(folder / "scan.h5")
    page = show(folder / "scan.h5")
    assert "Sinogram" in page.page.inner_text(".plane[data-axis='1'] .name")
    page.page.click("[data-tab='axis']")
    page.wait("!!(tomosView.live && tomosView.live.slice)")
    page.wait("tomosView.live.resetBox.title.includes('found')")
    assert page.js("tomosView.live.axis") == pytest.approx(31.5, abs=0.1)
    page.page.fill("#axis-value", "31.5")
    page.page.press("#axis-value", "Enter")
    page.wait("tomosView.live.slice.axis === 31.5 && !tomosView.live.running")
    right = np.array(page.js("Array.from(tomosView.live.slice.data)")).reshape(64, 64)
    page.page.locator("#axis-slider").focus()
    for _ in range(4):
        page.page.keyboard.press("ArrowRight")
    page.wait("tomosView.live.slice.axis === 32.5 && !tomosView.live.running")
    assert page.page.inner_text("#axis-option") == "--axis 32.5"
    wrong = np.array(page.js("Array.from(tomosView.live.slice.data)")).reshape(64, 64)
    row = page.state("cross[1]")
    for value, slice_ in ((31.5, right), (32.5, wrong)):
        name = folder / f"axis{value}.npy"
        command("recon", folder / "scan.h5", "--axis", value, "-o", name)
        wanted = np.load(name)[row]
        assert np.abs(slice_ - wanted).max() < 1e-3 * np.abs(wanted).max()
    page.page.fill("#axis-row", "2")
    page.page.press("#axis-row", "Enter")
    page.wait("tomosView.live.slice.row === 2")
    assert page.state("cross[1]") == 2
    for name, value in (("row", "2"), ("value", "32.5")): # emptied boxes change nothing
        page.page.fill(f"#axis-{name}", "")
        page.page.press(f"#axis-{name}", "Enter")
        page.page.locator(".plane").first.focus()
        assert page.page.input_value(f"#axis-{name}") == value
    assert page.state("cross[1]") == 2 and page.js("tomosView.live.axis") == 32.5
    # Another row while the panel shows something else.
    page.page.keyboard.press("l")
    page.js("tomosView.state.moveCross(1, 3)")
    page.page.click("[data-tab='axis']")
    page.wait("tomosView.live.slice.row === 5")
    # The slider moves while a request fails.
    page.js("""() => {
        const real = window.fetch, {live} = tomosView;
        window.fetch = async (path, options) => {
            if (!String(path).includes("slice?"))
                return real(path, options);
            window.fetch = real;
            live.set(33);
            clearTimeout(live.timer);
            throw new Error("failed once");
        };
        live.set(32.75);
    }""")
    page.wait("tomosView.live.slice.axis === 33")
    page.page.keyboard.press("s")
    assert page.js("[...document.getElementById('save-what').options].map(o => o.value)") == ["0", "1", "2"]
    page.page.click("#save-cancel")


def test_rest_of_the_page(show, folder):
    """Playing, volume rendering, PNG, help, labels, dark."""
    volume, page = np.load(folder / "first.npy"), show(folder / "first.npy", render=True, color_scheme="dark")
    dark = page.js("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", dark))) < 60
    page.page.keyboard.press("t")
    assert min(map(int, re.findall(r"\d+", page.js("getComputedStyle(document.body).backgroundColor")))) > 200
    unnamed = page.js("""[...document.querySelectorAll("button, select, input")]
        .filter(e => !e.getAttribute("aria-label") && !e.closest("label")).map(e => e.outerHTML)""")
    assert unnamed == []
    page.page.hover("[data-tab='render']") # the chosen tab can be read under the mouse as well
    assert page.js("getComputedStyle(document.querySelector(\"[data-tab='render']\")).backgroundColor") == "rgb(11, 98, 196)"
    page.page.keyboard.press("?")
    assert page.page.is_visible("#help")
    page.page.click("#help-close")

    page.page.fill("#play-speed", "30")
    page.page.keyboard.press("Escape")
    page.page.click("#play")
    page.wait("new Set(tomosView.view.frames.filter(f => f.axis === 0).map(f => f.slice)).size > 6")
    page.page.click("#play")

    page.wait("tomosView.render.loaded === 0 && tomosView.render.note.textContent === ''"
              " || !tomosView.render.gl")
    if page.js("!!tomosView.render.gl"):
        page.wait("""(() => {
            const {gl, canvas} = tomosView.render, pixels = new Uint8Array(4 * canvas.width * canvas.height);
            gl.readPixels(0, 0, canvas.width, canvas.height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
            return pixels.filter((v, i) => i % 4 === 0 && v > 100).length > 1000;
        })()""")

    set_window(page, 0, 1)
    page.page.keyboard.press("s")
    for name in ("#save-full", "#save-scale"):
        page.page.click(name)
    with page.page.expect_download() as download:
        page.page.click("#save-do")
    pyplot = pytest.importorskip("matplotlib.image", reason="there is no matplotlib to read the PNG")
    z = page.state("cross[0]")
    saved = np.round(255 * pyplot.imread(download.value.path(), format="png"))[..., 0]
    assert np.abs(saved - bytes_of(volume[z], 0, 1)).max() <= 1
    with page.page.expect_download() as download: # what is saved is the slice of the click
        page.js("() => { tomosView.saver.save('0', {full: true}); tomosView.state.moveCross(0, 1); }")
    assert download.value.suggested_filename == f"first_z{z}.png"
