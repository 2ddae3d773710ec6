"""What tomos view promises: view_check.py TOMOS FOLDER. Prints a line per check; fails at the first that does not hold."""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

from view_client import Server, box, npy_write

tomos, folder = sys.argv[1:3]
SHAPE = (6, 7, 8)
VALUES = [0.5 * i - 3 for i in range(6 * 7 * 8)]


def path(name):
    return os.path.join(folder, name)


def run(*words):
    subprocess.run([tomos, *words, "-q"], check=True)


def passed(what):
    print(f"ok - {what}")


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"not ok - {what}: {got!r}, not {wanted!r}")


def picked(first, count, step):
    return [VALUES[((first[0] + i * step[0]) * 7 + first[1] + j * step[1]) * 8 + first[2] + k * step[2]]
            for i in range(count[0]) for j in range(count[1]) for k in range(count[2])]


def random_box(rng):
    first = [rng.randrange(n) for n in SHAPE]
    step = [rng.randrange(1, 4) for _ in SHAPE]
    count = [rng.randrange(1, (n - 1 - f) // s + 2) for n, f, s in zip(SHAPE, first, step)]
    return first, count, step


def boxes(server, seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        b = random_box(rng)
        expect(f"box {b}", list(server.floats(box(*b))), picked(*b))


def check_info(server):
    info = server.info()
    file = info["files"][0]
    expect("keys", sorted(info), ["files", "scan", "version"])
    expect("the file", [file[k] for k in ("name", "content", "shape", "type", "voxel", "origin", "unit", "value_unit")],
           ["v.npy", "volume", list(SHAPE), "float32", [1, 1, 1], [0, 0, 0], "", ""])
    expect("levels", file["levels"], [{"level": 0, "shape": list(SHAPE), "factor": [1, 1, 1]}])
    expect("the histogram", [len(file["histogram"]["counts"]), sum(file["histogram"]["counts"])], [256, len(VALUES)])
    expect("its ends", [file["histogram"]["low"], file["histogram"]["high"]], [VALUES[0], VALUES[-1]])
    expect("the range", VALUES[0] <= file["range"][0] < file["range"][1] <= VALUES[-1], True)
    expect("two files", [f["name"] for f in info["files"]], ["v.npy", "w.npy"])
    expect("no scan", info["scan"], None)
    passed("info")


def check_boxes(server):
    boxes(server, 1, 40)
    expect("the second file", list(server.floats(box((1, 1, 1), (1, 1, 2), file=1))), [1, 1])
    low, high = VALUES[0], VALUES[-1]
    grey = server.get(box((0, 0, 0), SHAPE, more=f"&type=uint8&low={low}&high={high}"))
    expect("bytes", list(grey), [int(255 * ((v - low) / (high - low)) + 0.5) for v in VALUES])
    grey = server.get(box((0, 0, 0), (1, 1, 8), more="&type=uint8&low=-2&high=-1"))
    expect("clipped", list(grey), [0, 0, 0, 128, 255, 255, 255, 255])
    # escapes, as browsers write them
    expect("an escaped comma", list(server.floats("box?first=0%2C0%2C1&count=1%2c1,1")), [VALUES[1]])
    passed("boxes")


def check_columns():
    """Planes of constant x, several of which are read at once, asked for by several clients at the same time."""
    n = (70, 80, 37)
    npy_write(path("x.npy"), n, [float(i) for i in range(n[0] * n[1] * n[2])])
    faults = []

    def client(server, seed):
        rng = random.Random(seed)
        for _ in range(40):
            z, y, x = rng.randrange(2), rng.randrange(3), rng.randrange(n[2])
            rows = rng.choice((67, 68))
            got = list(server.floats(box((z, y, x), (rows, 75, 1))))
            if got != [((z + i) * n[1] + y + j) * n[2] + x for i in range(rows) for j in range(75)]:
                faults.append((z, y, x, rows))

    with Server(tomos, path("x.npy")) as server:
        threads = [threading.Thread(target=client, args=(server, seed)) for seed in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        expect("wrong planes", faults[:3], [])
        expect("outside", server.ask(box((4, 0, 3), (70, 75, 1)))[0], 400)
        expect("ends", server.interrupt()[0], 0)
    passed("planes of constant x")


def check_rejections(server):
    for query, status in (("box?first=0,0,0&count=1,1,9", 400), ("box?first=6,0,0&count=1,1,1", 400),
                          ("box?first=0,0,0", 400), ("box?first=0,0,0&count=0,1,1", 400), ("box?count=1,1,1&first=0,0", 400),
                          ("box?first=0,0,0&count=1,1,1&step=0,1,1", 400), ("box?first=-1,0,0&count=1,1,1", 400),
                          (box((0, 0, 0), (1, 1, 1), file=2), 400), (box((0, 0, 0), (1, 1, 1), level=1), 400),
                          (box((0, 0, 0), (4096, 4096, 8)), 400), (box((0, 0, 0), (2 ** 62, 2 ** 62, 8)), 400),
                          (box((0, 0, 0), (1, 1, 1), more="&type=int8"), 400), (box((0, 0, 0), (1, 1, 1), more="&x=1"), 400),
                          (box((0, 0, 0), (1, 1, 1), more="&type=uint8&low=1&high=1"), 400),
                          (box((0, 0, 0), (1, 1, 1), more="&type=uint8&low=nan&high=1"), 400), ("box?%", 400), ("box?a%0=1", 400),
                          ("slice?row=0", 404), ("slice?row=0&axis=1e999", 400), ("slice", 400), ("nothing", 404), ("info/", 404),
                          ("zarr/zarr.json", 404), ("x" * 3000, 414), ("box?" + "first=0,0,0&" * 200, 414)):
        got, headers, data = server.ask(query)
        expect(query[:60], got, status)
        expect("a reason", bool(json.loads(data)["error"]), True)
    passed("rejections")


def check_gate(server):
    token, port = server.token, server.port
    other = token[:-1] + ("0" if token[-1] != "0" else "1")
    for wrong in (other, token[:-1], token + "0", token.upper() + "x", "0" * 32):
        expect("a wrong token", server.ask("info", token=wrong)[0], 404)
    expect("no token", server.ask("/info", token="")[0], 404)
    expect("nothing", server.ask("/", token="")[0], 404)
    expect("no slash", server.ask(f"/{token}", token="")[0], 404)
    for wrong in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.1:{port}0", f"[::1]:{port}"):
        expect(f"host {wrong}", server.ask("info", host=wrong)[0], 403)
    expect("host localhost", server.ask("info", host=f"localhost:{port}")[0], 200)
    status = raw(server, f"GET /{token}/info HTTP/1.0\r\n\r\n")
    expect("no host", b" 403 " in status or b" 400 " in status, True)
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        status, headers, _ = server.ask("info", method=method)
        expect(method, [status, headers.get("allow")], [405, "GET, HEAD"])
    status, headers, data = server.ask("info", method="HEAD")
    expect("HEAD", [status, data, int(headers["content-length"]) > 100], [200, b"", True])
    passed("token, host and method")


def raw(server, text):
    with socket.create_connection(("127.0.0.1", server.port), 60) as s:
        s.sendall(text.encode("latin-1"))
        return b"".join(iter(lambda: s.recv(65536), b""))


def check_headers(server):
    for name in ("", "info", "nothing"):
        _, headers, _ = server.ask(name)
        expect("headers", [headers.get(k) for k in ("cache-control", "x-content-type-options", "content-security-policy")],
               ["no-store", "nosniff", "default-src 'self'; img-src 'self' blob: data:"])
        expect("no other origin", "access-control-allow-origin" in headers, False)
    status, headers, data = server.ask("")
    expect("the page", [status, headers["content-type"], b"<html" in data], [200, "text/html; charset=utf-8", True])
    passed("headers")


def check_paths(server):
    for part in ("../v.npy", "%2e%2e/v.npy", "..%2fv.npy", "zarr/../v.npy", "zarr/%2e%2e/v.npy", "zarr/..%5cv.npy", "zarr//v.npy",
                 "zarr/.//v.npy", "..\\v.npy", "v.npy", "/etc/passwd", "zarr//etc/passwd", "zarr/%00", "index.html%00", "./index.html",
                 "%69ndex.html", "zarr/.hidden"):
        text = raw(server, f"GET /{server.token}/{part} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n")
        expect(part, text.split()[1], b"404")
    passed("paths outside")


def check_clients(server):
    failed = []

    def client(seed):
        try:
            boxes(server, seed, 15)
        except BaseException as error:  # sys.exit of a thread
            failed.append(str(error))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    expect("clients that wait", [t.name for t in threads if t.is_alive()], [])
    expect("clients at once", failed, [])
    passed("several clients")


def check_end(server):
    expect("addresses", server.listening(), [f"tcp 0100007F:{server.port:04X}"])
    with socket.create_connection(("127.0.0.1", server.port)) as idle, socket.create_connection(("127.0.0.1", server.port)) as half:
        half.sendall(f"GET /{server.token}/in".encode())
        status, seconds = server.interrupt()
        expect("the exit status", status, 0)
        expect(f"the end does not wait for clients ({seconds:.2f} s)", seconds < 20, True)
        idle.close()
    passed("Ctrl-C")


def check_browser():
    """The browser gets the address, and ends at a closed pipe as programs do."""
    os.mkdir(path("bin"))
    with open(path("bin/xdg-open"), "w") as file:
        file.write(f"#!/bin/sh\ngrep SigIgn /proc/$$/status >'{path('opened')}.part'\necho \"$1\" >>'{path('opened')}.part'\n"
                   f"mv '{path('opened')}.part' '{path('opened')}'\n")
    os.chmod(path("bin/xdg-open"), 0o755)
    environment = {**os.environ, "DISPLAY": ":0", "PATH": f"{path('bin')}:{os.environ['PATH']}"}
    with Server(tomos, path("v.npy"), browser=environment) as server:
        wait_until("a browser", lambda: os.path.exists(path("opened")))
        with open(path("opened")) as file:
            _, ignored, address = file.read().split()
        expect("the address", address, f"http://127.0.0.1:{server.port}/{server.token}/")
        expect("SIGPIPE is not ignored", int(ignored, 16) >> (signal.SIGPIPE - 1) & 1, 0)
    passed("a browser")


def check_all():
    npy_write(path("v.npy"), SHAPE, VALUES)
    npy_write(path("w.npy"), (2, 2, 3), [1] * 12)
    with Server(tomos, path("v.npy"), path("w.npy"), "--port", "0") as server:
        for check in (check_info, check_boxes, check_rejections, check_gate, check_headers, check_paths, check_clients):
            check(server)
        server.abuse(int(sys.argv[3]) if len(sys.argv) > 3 else 500, 1)
        boxes(server, 3, 5)
        passed("malformed requests")
        check_end(server)


# ---- large files ----


def first_answer(*words):
    """Bytes read for the description and a plane, and the seconds that took, which a busy machine makes longer."""
    with Server(tomos, *words) as server:
        n = server.info()["files"][0]["shape"]
        server.get(box((n[0] // 2, 0, 0), (1, n[1] // 4, n[2] // 4), (1, 4, 4)))
        read, seconds = server.counter("rchar"), time.monotonic() - server.begun
        for axis in (1, 2):
            first, count = [0, 0, 0], [m // 16 for m in n]
            first[axis], count[axis] = n[axis] // 2, 1
            expect("a plane", set(server.floats(box(first, count, (16, 16, 16)))), {0})
        expect("ends", server.interrupt()[0], 0)
    return read, seconds


def wait_until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        expect(f"{what} within {seconds} s", time.monotonic() < end, True)
        time.sleep(0.01)


def rests(server):
    """Whether the server reads nothing for half a second."""
    before = server.counter("syscr")
    time.sleep(0.5)
    return server.counter("syscr") == before


def check_cancelled(name):
    """A plane that takes long ends when the client goes away, and at Ctrl-C."""
    plane = box((0, 0, 1000), (2048, 2048, 1))
    with Server(tomos, name) as server:
        wait_until("an idle server", lambda: rests(server))
        start = server.counter("syscr")
        gone = server.begin(plane)
        wait_until("a plane is read", lambda: server.counter("syscr") > start + 100)
        gone.close()
        wait_until("an end for a client that has gone", lambda: rests(server))
        read = server.counter("syscr") - start
        expect(f"most of the plane is not read ({read} of {2048 ** 2} calls)", read < 2048 ** 2 // 2, True)
        with server.begin(plane):
            start = server.counter("syscr")
            wait_until("a plane is read", lambda: server.counter("syscr") > start + 100)
            status, seconds = server.interrupt()
        expect(f"Ctrl-C while a plane is read ({seconds:.2f} s)", [status, seconds < 20], [0, True])
    passed("requests that are not wanted any more")


def check_large():
    npy_write(path("large.npy"), (2048, 2048, 2048), None)
    with open(path("large.raw"), "wb") as file:
        file.truncate(2 * 2048 ** 3)
    for words in ((path("large.npy"),), (path("large.raw"), "--raw", "2048,2048,2048,uint16")):
        read, seconds = first_answer(*words)
        expect(f"little of {words[0]} is read for the first answer ({read} bytes)", read < 256 << 20, True)
        passed(f"2048^3: first answer after {seconds:.2f} s and {read >> 20} MiB")
    check_cancelled(path("large.npy"))
    os.remove(path("large.npy"))
    os.remove(path("large.raw"))


# ---- scans ----


def slices_of_recon(scan, words):
    """The volume that tomos recon makes of a scan, slice by slice."""
    run("recon", path(scan), *words, "--overwrite", "-o", path("whole.h5"))
    run("convert", path("whole.h5"), path("whole.npy"), "--overwrite")
    with open(path("whole.npy"), "rb") as file:
        head = file.read(128).decode("latin1")
        shape = [int(n) for n in head[head.index("(") + 1:head.index(")")].split(",") if n.strip()]
        values = memoryview(file.read()).cast("f")
    nz, ny, nx = ([1] + shape)[-3:]
    return [values[k * ny * nx:(k + 1) * ny * nx] for k in range(nz)], f"{ny},{nx}"


def as_recon(what, server, row, query, wanted, shape):
    status, headers, data = server.ask(f"slice?row={row}{query}")
    expect(f"{what}: a slice", [status, headers.get("x-shape")], [200, shape])
    error = max(abs(a - b) for a, b in zip(memoryview(data).cast("f"), wanted)) / max(map(abs, wanted))
    expect(f"{what}: as of recon ({error:.2g})", error < 1e-5, True)


def check_point_sources():
    """Fan and cone beams, also with angles of the opposite direction, and with an offset detector: slices as of recon, before
    the page has searched for the axis and after it."""
    far = ["--source-axis", "6", "--source-detector", "9", "--pixel", "0.05"]
    fan, cone = ["--geometry", "fan", *far], ["--geometry", "cone", *far]
    run("project", "shepp-logan-2d-modified", *fan, "--columns", "80", "--views", "120", "-o", path("fan.h5"))
    run("project", "shepp-logan-modified", *cone, "--columns", "80", "--rows", "24", "--views", "90", "-o", path("cone.h5"))
    run("project", "shepp-logan-2d-modified", *fan, "--columns", "56", "--views", "180", "--axis", "16", "-o", path("offset.h5"))
    # Views in an order in which the first two do not tell the direction: the first one twice.
    angles = [0, *range(0, 360, 3)]
    with open(path("angles.txt"), "w", encoding="ascii") as file:
        file.write("\n".join(str(-a) for a in angles))
    run("project", "shepp-logan-2d-modified", *fan, "--columns", "80", "--angles", ",".join(map(str, angles)), "-o", path("twice.h5"))
    for name in ("fan", "cone", "offset", "twice"):
        run("convert", path(name + ".h5"), path(name + ".npy"))
    for name, words, row, reversed_ in (("fan", fan, 0, True), ("fan", fan, 0, False), ("cone", cone, 3, False), ("offset", fan, 0, False)):
        words = [*words, "--arc", "-360" if reversed_ else "360"]
        slices, shape = slices_of_recon(name + ".npy", words)
        with Server(tomos, path(name + ".npy"), *words) as server:
            as_recon(name, server, row, "", slices[row], shape)
            found = json.loads(server.get("axis"))
            expect(f"{name}: the direction", found["reversed"], reversed_)
            as_recon(f"{name}, searched", server, row, "", slices[row], shape)
        words += ["--axis", "40.5"]
        slices, shape = slices_of_recon(name + ".npy", words)
        with Server(tomos, path(name + ".npy"), *words) as server:
            as_recon(f"{name}, an axis given", server, row, "", slices[row], shape)
    with Server(tomos, path("twice.npy"), *fan, "--angles", "@" + path("angles.txt")) as server:
        expect("the first view twice: the direction", json.loads(server.get("axis"))["reversed"], True)


def check_scan():
    run("project", "shepp-logan", "--columns", "64", "--rows", "4", "--views", "90", "-o", path("scan.h5"))
    run("recon", path("scan.h5"), "--rows", "1:2", "-o", path("slice.npy"))
    run("recon", path("scan.h5"), "--rows", "1:2", "-o", path("slice.h5"))
    with open(path("slice.npy"), "rb") as file:
        wanted = memoryview(file.read()[-64 * 64 * 4:]).cast("f")
    with Server(tomos, path("scan.h5")) as server:
        info = server.info()
        expect("content", [info["files"][0]["content"], info["files"][0]["shape"]], ["scan", [90, 4, 64]])
        expect("the scan", [info["scan"][k] for k in ("rows", "columns", "views", "axis", "live")], [4, 64, 90, 31.5, True])
        status, headers, data = server.ask("slice?row=1&axis=31.5")
        expect("a slice", [status, headers["x-shape"]], [200, "64,64"])
        slice_ = memoryview(data).cast("f")
        expect("as of recon", max(abs(a - b) for a, b in zip(slice_, wanted)) < 1e-4 * max(wanted), True)
        half = memoryview(server.get("slice?row=1&size=32")).cast("f")
        means = [sum(wanted[(2 * y + j) * 64 + 2 * x + i] for j in (0, 1) for i in (0, 1)) / 4 for y in range(32) for x in range(32)]
        middle = [y * 32 + x for y in range(6, 26) for x in range(6, 26)]
        error = sum((half[i] - means[i]) ** 2 for i in middle) / sum(means[i] ** 2 for i in middle)
        expect(f"half the size ({error:.4f})", error < 0.01, True)
        expect("another size", len(server.get("slice?row=1&size=50")), 50 * 50 * 4)
        expect("without an axis", server.get("slice?row=1"), data)
        moved = memoryview(server.get("slice?row=1&axis=33.5&filter=hann")).cast("f")
        expect("another axis", max(abs(a - b) for a, b in zip(moved, wanted)) > 0.05 * max(wanted), True)
        expect("an unknown filter", server.ask("slice?row=1&filter=nothing")[0], 400)
        status, _, data = server.ask("slice?row=4")
        expect("a row beyond the scan", [status, b"row is 4; the scan has rows 0 to 3" in data], [400, True])
        expect("ends", server.interrupt()[0], 0)
    # The same scan, its axis at another column than the geometry says.
    run("project", "shepp-logan", "--columns", "64", "--rows", "4", "--views", "90", "--axis", "34", "-o", path("moved.h5"))
    run("convert", path("scan.h5"), path("centred.json"))
    with Server(tomos, path("moved.h5"), "--views-file", path("centred.json")) as server:
        expect("the axis as given", server.info()["scan"]["axis"], 31.5)
        slice_ = memoryview(server.get("slice?row=1&axis=34")).cast("f")
        inner = [y * 64 + x for y in range(20, 44) for x in range(20, 44)]
        difference = [max(abs(s[i] - wanted[i]) for i in inner) for s in (slice_, memoryview(server.get("slice?row=1")).cast("f"))]
        expect(f"the axis moved to its place {difference}", 2 * difference[0] < difference[1], True)
    with Server(tomos, path("moved.h5")) as server:
        expect("the axis of the file", server.info()["scan"]["axis"], 34)
    # An array is a scan where options say so, with the slices that recon makes of it.
    run("convert", path("scan.h5"), path("scan.npy"))
    with Server(tomos, path("scan.npy")) as server:
        expect("an array", server.info()["files"][0]["content"], "volume")
    with Server(tomos, path("scan.npy"), "--arc", "180", "--axis", "31.5", "--pixel", "0.5", "--reverse") as server:
        info = server.info()
        expect("an array with a geometry", [info["files"][0]["content"], info["scan"]["axis"], info["scan"]["live"]], ["scan", 31.5, True])
        expect("its angles", [info["scan"]["angles"][i] for i in (0, 1, 45)], [0, -2, -90])
        expect("its pixels", info["files"][0]["step"][1:], [0.5, 0.5])
    with Server(tomos, path("scan.npy"), "--arc", "180") as server:
        slice_ = memoryview(server.get("slice?row=1&axis=31.5")).cast("f")
        scale = sum(slice_) / sum(wanted)
        expect("as of recon", max(abs(a - scale * b) for a, b in zip(slice_, wanted)) < 1e-3 * scale * max(wanted), True)
    with Server(tomos, path("scan.npy"), "--arc", "180", "--pixel-height", "2") as server:
        expect("the height of pixels alone", server.info()["files"][0]["step"], [1, 2, 1])
    check_point_sources()
    failed = subprocess.run([tomos, "view", path("slice.h5"), "--axis", "3"], stderr=subprocess.PIPE, text=True)
    expect("a volume with a geometry", [failed.returncode, "not projections" in failed.stderr], [1, True])
    passed("a scan")


# ---- Zarr ----


def check_ranges(server):
    with open(path("v.ome.zarr/zarr.json"), "rb") as file:
        whole = file.read()
    status, headers, data = server.ask("zarr/zarr.json")
    expect("a file", [status, headers["content-type"], headers["accept-ranges"], data == whole], [200, "application/json", "bytes", True])
    expect("for other pages", headers["access-control-allow-origin"], "*")
    n = len(whole)
    for text, first, end in (("3-9", 3, 10), ("0-0", 0, 1), ("5-", 5, n), ("-7", n - 7, n), ("-999999", 0, n), (f"2-{n + 5}", 2, n)):
        status, headers, data = server.ask("zarr/zarr.json", headers=[("Range", "bytes=" + text)])
        expect(text, [status, data == whole[first:end], headers["content-range"]], [206, True, f"bytes {first}-{end - 1}/{n}"])
    for text in (f"{n}-", "9-3", "x", "-", "-0", "1-2x"):
        expect(text, server.ask("zarr/zarr.json", headers=[("Range", "bytes=" + text)])[0], 416)
    status, headers, _ = server.ask("zarr/zarr.json", method="OPTIONS")
    expect("a preflight", [status, headers["access-control-allow-headers"]], [204, "Range"])
    expect("others have none", server.ask("info", method="OPTIONS")[0], 405)
    expect("not for the page", "access-control-allow-origin" in server.ask("info")[1], False)


def check_inside(server):
    with open(path("secret"), "w") as file:
        file.write("secret")
    os.symlink(path("secret"), path("v.ome.zarr/link"))
    os.symlink(folder, path("v.ome.zarr/up"))
    os.mkfifo(path("v.ome.zarr/pipe"))
    for part in ("link", "up/secret", "pipe", "0", "0/", "", "..", "../secret", "0/../zarr.json", "./zarr.json", "0//zarr.json",
                 "%2e%2e/secret", "..%2fsecret", "0%2fzarr.json", "zarr%2ejson", "..\\secret", "zarr.json%00", ".hidden", "zarr.json?x", "/etc/passwd"):
        text = raw(server, f"GET /{server.token}/zarr/{part} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n")
        expect(part, [text.split()[1], b"secret" in text.split(b"\r\n\r\n")[1]], [b"404", False])
    expect("a file further down", server.ask("zarr/0/zarr.json")[0], 200)


def check_zarr():
    subprocess.run([tomos, "phantom", "shepp-logan", "--size", "90,70,80", "-q", "-o", path("v.ome.zarr")], check=True)
    with Server(tomos, path("v.ome.zarr")) as server:
        expect("without --zarr", server.ask("zarr/zarr.json")[0], 404)
        file = server.info()["files"][0]
        expect("levels", [level["shape"] for level in file["levels"]], [[80, 70, 90], [40, 35, 45]])
        expect("factors", [level["factor"] for level in file["levels"]], [[1, 1, 1], [2, 2, 2]])
        expect("the unit", [file["unit"], file["value_unit"], abs(file["step"][1] + file["voxel"][1]) < 1e-9], ["mm", "1/mm", True])
        fine = server.floats(box((10, 20, 30), (2, 2, 2)))
        coarse = server.floats(box((5, 10, 15), (1, 1, 1), level=1))
        expect("a mean", abs(coarse[0] - sum(fine) / 8) < 1e-6, True)
        expect("outside a level", server.ask(box((40, 0, 0), (1, 1, 1), level=1))[0], 400)
    with Server(tomos, path("v.ome.zarr"), "--zarr") as server:
        check_ranges(server)
        check_inside(server)
        expect("ends", server.interrupt()[0], 0)
    passed("Zarr")


check_all()
check_columns()
check_browser()
check_zarr()
check_scan()
check_large()
