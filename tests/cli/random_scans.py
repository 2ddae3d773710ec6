"""Small scans and volumes in every format that tomos reads, written with the standard library alone, and the
.npy files it writes read back. For long_random.py."""
import array
import json
import math
import os
import struct
import subprocess
import zipfile

VIEWS, ROWS, COLUMNS = 12, 4, 34  # fewer columns do not do to find the axis
TYPES = {"float32": ("f", "<f4"), "uint16": ("H", "<u2"), "float64": ("d", "<f8")}


# ---- .npy and .npz ----------------------------------------------------------------------------

def npy_bytes(values, shape, kind="float32"):
    code, name = TYPES[kind]
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (
        name, "".join("%d, " % n for n in shape))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            + array.array(code, values).tobytes())


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def npy_read(path):
    """Values and shape of a .npy file of float32, as tomos writes it."""
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<H", content[8:10])[0]
    header = content[10:10 + length].decode()
    shape = tuple(int(n) for n in header.split("(")[1].split(")")[0].split(",") if n.strip())
    code = "f" if "f4" in header else "H" if "u2" in header else "B"
    return array.array(code, content[10 + length:]), shape


def npz_write(path, arrays):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in arrays.items():
            archive.writestr(name + ".npy", content)


# ---- HDF5: version 1 object headers, links kept in them, contiguous data ------------------------

def message(kind, body):
    body += b"\0" * (-len(body) % 8)
    return struct.pack("<HHB3x", kind, len(body), 0) + body


def text_type(text):
    return struct.pack("<BBBBI", 0x13, 0, 0, 0, len(text) + 1)


NUMBER_TYPES = {
    "uint16": struct.pack("<BBBBIHH", 0x10, 0, 0, 0, 2, 0, 16),
    "float32": struct.pack("<BBBBIHHBBBBI", 0x11, 0x20, 31, 0, 4, 0, 32, 23, 8, 0, 23, 127),
    "float64": struct.pack("<BBBBIHHBBBBI", 0x11, 0x20, 63, 0, 8, 0, 64, 52, 11, 0, 52, 1023)}


def space(shape):
    return struct.pack("<BBB5x", 1, len(shape), 0) + b"".join(struct.pack("<Q", n) for n in shape)


def attribute(name, text):
    def padded(part):
        return part + b"\0" * (-len(part) % 8)
    kind, one = text_type(text), space(())
    name = name.encode() + b"\0"
    return message(0x0C, struct.pack("<BxHHH", 1, len(name), len(kind), len(one))
                   + padded(name) + padded(kind) + padded(one) + text.encode() + b"\0")


class Hdf5:
    """A tree of dictionaries: groups; (values, shape, type[, {attribute: text}]) or a text: datasets."""

    def __init__(self):
        self.content = bytearray(96)

    def put(self, block):
        self.content += b"\0" * (-len(self.content) % 8)
        place = len(self.content)
        self.content += block
        return place

    def header(self, messages):
        body = b"".join(messages)
        return self.put(struct.pack("<BxHII4x", 1, len(messages), 1, len(body)) + body)

    def dataset(self, item):
        if isinstance(item, str):
            kind, shape, data, extra = text_type(item), (), item.encode() + b"\0", {}
        else:
            kind, shape = NUMBER_TYPES[item[2]], item[1]
            data = array.array(TYPES[item[2]][0], item[0]).tobytes()
            extra = item[3] if len(item) > 3 else {}
        place = self.put(data)
        return self.header([message(1, space(shape)), message(3, kind),
                            message(5, struct.pack("<BBBB", 2, 1, 0, 0)),
                            message(8, struct.pack("<BBQQ", 3, 1, place, len(data)))]
                           + [attribute(*a) for a in extra.items()])

    def group(self, tree):
        messages = [message(2, struct.pack("<BBQQ", 0, 0, 2**64 - 1, 2**64 - 1)),
                    message(0x0A, struct.pack("<BB", 0, 0))]
        for name, item in tree.items():
            place = self.group(item) if isinstance(item, dict) else self.dataset(item)
            messages.append(message(6, struct.pack("<BBB", 1, 0, len(name)) + name.encode()
                                    + struct.pack("<Q", place)))
        return self.header(messages)

    def write(self, path, tree):
        root = self.group(tree)
        self.content[:96] = (b"\x89HDF\r\n\x1a\n" + struct.pack("<BBBxBBBxHHI", 0, 0, 0, 0, 8, 8, 4, 16, 0)
                             + struct.pack("<QQQQ", 0, 2**64 - 1, len(self.content), 2**64 - 1)
                             + struct.pack("<QQII16x", 0, root, 0, 0))
        write(path, bytes(self.content))


# ---- TIFF ---------------------------------------------------------------------------------------

def tiff_write(path, values, width, height):
    """One page of uint16."""
    data = array.array("H", values).tobytes()
    tags = [(256, 3, width), (257, 3, height), (258, 3, 16), (259, 3, 1), (262, 3, 1), (273, 4, 8),
            (277, 3, 1), (278, 3, height), (279, 4, len(data)), (339, 3, 1)]
    table = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", t, k, 1, v) for t, k, v in tags)
    write(path, struct.pack("<2sHI", b"II", 42, 8 + len(data)) + data + table + struct.pack("<I", 0))


# ---- the pool -----------------------------------------------------------------------------------

def counts_of(integrals):
    """Counts with a dark level, and the flats and darks that go with them."""
    shape = (VIEWS, ROWS, COLUMNS)
    views = [min(65535, round(100 + 30000 * math.exp(-max(0.0, p)))) for p in integrals]
    frame = ROWS * COLUMNS
    flats = [30100 + 7 * (i % 11) for i in range(3 * frame)]
    darks = [100 + i % 3 for i in range(2 * frame)]
    return (views, shape, "uint16"), (flats, (3,) + shape[1:], "uint16"), (darks, (2,) + shape[1:], "uint16")


def write_measured(folder, integrals):
    """The same measured scan as Data Exchange, NXtomo, npz, a folder of TIFF files and plain arrays."""
    views, flats, darks = counts_of(integrals)
    angles = ([180 * i / VIEWS for i in range(VIEWS)], (VIEWS,), "float64")
    Hdf5().write(folder + "/exchange.h5", {"exchange": {
        "data": views, "data_white": flats, "data_dark": darks, "theta": angles}})
    frames = flats[1][0] + VIEWS + darks[1][0]
    Hdf5().write(folder + "/nexus.nxs", {"entry": {
        "definition": "NXtomo",
        "instrument": {"detector": {
            "data": (flats[0] + views[0] + darks[0], (frames,) + views[1][1:], "uint16"),
            "image_key": ([1] * 3 + [0] * VIEWS + [2] * 2, (frames,), "uint16"),
            "x_pixel_size": ([1.5], (1,), "float64", {"units": "mm"})}},
        "sample": {"rotation_angle": ([0.0] * 3 + angles[0] + [0.0] * 2, (frames,), "float64",
                                      {"units": "degree"})}}})
    npz_write(folder + "/measured.npz", {"data": npy_bytes(*views), "flats": npy_bytes(*flats),
                                         "darks": npy_bytes(*darks), "theta": npy_bytes(*angles)})
    os.mkdir(folder + "/tiffs")
    for name, (values, shape, _) in (("proj", views), ("flat", flats), ("dark", darks)):
        for i in range(shape[0]):
            tiff_write("%s/tiffs/%s_%04d.tif" % (folder, name, i),
                       values[i * ROWS * COLUMNS:(i + 1) * ROWS * COLUMNS], COLUMNS, ROWS)
    for name, item in (("counts", views), ("flats", flats), ("darks", darks)):
        write("%s/%s.npy" % (folder, name), npy_bytes(*item))
    write(folder + "/angles.txt", "\n".join("%r" % a for a in angles[0]).encode())


def write_odd(folder, integrals):
    """What a scan should not be: not finite, huge, without light, of the wrong shape."""
    shape = (VIEWS, ROWS, COLUMNS)
    nan = list(integrals)
    nan[7], nan[100] = float("nan"), float("inf")
    write(folder + "/nan.npy", npy_bytes(nan, shape))
    write(folder + "/allnan.npy", npy_bytes([float("nan")] * len(nan), shape))
    write(folder + "/huge.npy", npy_bytes([3e38 if i % 5 else -3e38 for i in range(len(nan))], shape))
    write(folder + "/tiny.npy", npy_bytes([1e-30 * v for v in integrals], shape))
    write(folder + "/zero.npy", npy_bytes([0.0] * len(nan), shape))
    write(folder + "/one.npy", npy_bytes([1.0], (1, 1, 1)))
    views, flats, darks = counts_of(integrals)
    Hdf5().write(folder + "/noflat.h5", {"exchange": {
        "data": views, "data_white": ([0] * len(flats[0]), flats[1], "uint16"), "data_dark": darks}})
    write(folder + "/empty.h5", b"")
    write(folder + "/text.txt", b"this is no scan\n")


SCANS = {  # tomos project: name, phantom and geometry
    "parallel": "shepp-logan-modified --views 12 --rows 4 --columns 34",
    "slice": "shepp-logan-2d-modified --views 16 --rows 1 --columns 20",
    "offset": "ball --views 12 --rows 4 --columns 18 --axis 7.3 --arc 360",
    "fan": "ball --geometry fan --source-axis 5 --source-detector 8 --views 14 --rows 3 --columns 18",
    "cone": "shepp-logan --geometry cone --source-axis 6 --source-detector 9 --views 12 --rows 14 --columns 16",
    "helix": "ball --geometry helix --source-axis 6 --source-detector 9 --views 30 --rows 6 --columns 14 "
             "--pitch 0.8 --arc 720",
    "lamino": "ball --geometry laminography --tilt 30 --views 12 --rows 12 --columns 14",
    "small": "ball --views 12 --rows 4 --columns 18 --radius 0.001",
}


def make_pool(tomos, folder):
    """Fills the folder; returns the names of scans, of volumes and of all else."""
    def run(*words):
        subprocess.run([tomos, *words, "-q"], cwd=folder, check=True)
    for name, words in SCANS.items():
        run("project", *words.split(), "-o", name + ".h5")
    run("convert", "parallel.h5", "plain.npy")
    integrals = npy_read(folder + "/plain.npy")[0]
    write_measured(folder, integrals)
    write_odd(folder, integrals)
    write(folder + "/numbers.raw", integrals.tobytes())
    write(folder + "/sinograms.npy", npy_bytes(
        [integrals[(v * ROWS + r) * COLUMNS + c] for r in range(ROWS) for v in range(VIEWS)
         for c in range(COLUMNS)], (ROWS, VIEWS, COLUMNS)))
    for ending in ("tif", "mhd", "mha", "h5"):
        run("convert", "plain.npy", "plain." + ending)
    for name in ("parallel", "cone", "helix", "fan"):
        run("convert", name + ".h5", name + ".json")
    run("phantom", "shepp-logan-modified", "--size", "34,34,4", "-o", "volume.h5")
    run("phantom", "ball", "--size", "12", "-o", "ball.npy")
    run("phantom", "ball", "--size", "12", "-o", "ball.tif")
    run("matrix", "slice.h5", "-o", "matrix.npz")
    run("matrix", "slice.h5", "-o", "matrix.mtx")
    run("recon", "slice.h5", "--method", "sirt", "--iterations", "3", "--history", "history.csv",
        "-o", "slice_rec.npy")
    write(folder + "/recipe.ini", b"[prep]\nrings = titarenko\n[analytic]\nfilter = hann\n")
    scans = [n + ".h5" for n in SCANS] + [
        "exchange.h5", "nexus.nxs", "measured.npz", "tiffs", "plain.npy", "plain.tif", "plain.mhd", "plain.mha",
        "plain.h5", "counts.npy", "sinograms.npy", "numbers.raw"]
    odd = ["nan.npy", "allnan.npy", "huge.npy", "tiny.npy", "zero.npy", "one.npy", "noflat.h5", "empty.h5",
           "text.txt", "missing.h5"]
    volumes = ["volume.h5", "ball.npy", "ball.tif", "slice_rec.npy"]
    return {"scan": scans, "odd": odd, "volume": volumes,
            "views": [n + ".json" for n in ("parallel", "cone", "helix", "fan")],
            "matrix": ["matrix.npz", "matrix.mtx"], "csv": ["history.csv"], "recipe": ["recipe.ini"],
            "list": ["angles.txt"], "flats": ["flats.npy"], "darks": ["darks.npy"]}


def shuffle_scan(folder, name, order):
    """A copy of name.h5 with its views in another order, as shuffled.npy and shuffled.json."""
    with open(folder + "/" + name + ".json", encoding="utf-8") as file:
        geometry = json.load(file)
    geometry["views"] = [geometry["views"][i] for i in order]
    with open(folder + "/shuffled.json", "w", encoding="utf-8") as file:
        json.dump(geometry, file)


def damage(rng, content):
    """Truncated, with bits flipped, or a part replaced."""
    content = bytearray(content)
    way = rng.randrange(3)
    if way == 0 or len(content) < 4:
        return bytes(content[:rng.randrange(len(content) + 1)])
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(min(len(content), rng.choice((64, 1024, 10**9))))
        content[at] = content[at] ^ (1 << rng.randrange(8)) if way == 1 else rng.choice((0, 255, 127))
    return bytes(content)


def fingerprint(path):
    if os.path.isdir(path):
        return tuple((n, fingerprint(os.path.join(path, n))) for n in sorted(os.listdir(path)))
    try:
        with open(path, "rb") as file:
            return hash(file.read())
    except OSError:
        return None
