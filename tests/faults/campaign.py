"""Every file call, or every allocation, of whole commands failing in turn.

    campaign.py COMMAND LIBRARY [--kinds EIO,ENOSPC,...] [--stride N] [--from NAMES] [--only WORDS]

LIBRARY is the interposed one (fault_calls.h). Each command runs once without a fault, then with the 1st, 2nd, ...
call failing until it makes no such call any more. It must end with a message, or with the very files and lines of
the first run; a failed one may leave only what its --resume uses, and that must lead to the same files.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

SECONDS = 60
# What is run; whether --resume goes on from what a failed run leaves, and what that may have besides hidden files;
# the content of an older output that is in the way.
Scene = collections.namedtuple("Scene", "name words resume state old", defaults=(False, (), None))


def npy(kind, shape, numbers):
    """The bytes of an npy file of uint16 ("H") or doubles ("d")."""
    head = "{'descr': '<%s', 'fortran_order': False, 'shape': %s, }" % ({"H": "u2", "d": "f8"}[kind], shape)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack(
        "<%d%s" % (len(numbers), kind), *numbers)


def write_counts(path, views=8, rows=2, columns=32):
    frame = rows * columns
    counts = [900 - 40 * ((i * 7) % 13) for i in range(views * frame)]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.npy", npy("H", (views, rows, columns), counts))
        archive.writestr("flats.npy", npy("H", (2, rows, columns), [1000] * 2 * frame))
        archive.writestr("darks.npy", npy("H", (1, rows, columns), [10] * frame))
        archive.writestr("theta.npy", npy("d", (views,), [180.0 * i / views for i in range(views)]))


def make_inputs(tomos, folder):
    """Scans, volumes and matrices in every format, made by the command itself."""

    def run(*words):
        subprocess.run([tomos, *words, "-q"], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    run("phantom", "shepp-logan", "--size", "12", "-o", "volume.h5")
    run("project", "shepp-logan-2d-modified", "--columns", "32", "--rows", "2", "--views", "8", "-o", "scan.h5")
    for name in ("npy", "tif", "mha", "mhd"):
        run("convert", "scan.h5", "scan." + name)
    run("convert", "scan.h5", "stack/")
    run("convert", "scan.h5", "packed.h5", "--compress", "4")
    run("convert", "scan.h5", "geometry.json")
    run("convert", "scan.h5", "geometry.txt")
    for name in ("mtx", "npz", "h5"):
        run("matrix", "scan.h5", "--size", "32,32,2", "-o", "matrix." + name)
    run("recon", "scan.h5", "--method", "sirt", "--iterations", "2", "--checkpoint", "state", "--history",
        "history.csv", "--save-recipe", "recipe.ini", "-o", "start.h5")
    write_counts(os.path.join(folder, "counts.npz"))
    with open(os.path.join(folder, "angles.txt"), "w") as file:
        file.write(" ".join(str(22.5 * i) for i in range(8)))
    data = open(os.path.join(folder, "scan.npy"), "rb").read()
    open(os.path.join(folder, "scan.raw16"), "wb").write(data[-8 * 2 * 32 * 4:])


OUTPUTS = ("out.h5", "out.npy", "out.tif", "out.mha", "out.mhd", "out.nii", "out.nii.gz", "out.nrrd",
           "out.vti", "out/", "packed.h5")


def to_each(words, **others):
    """One scene per output format."""
    for out in OUTPUTS:
        more = ["--compress", "4"] if out == "packed.h5" else []
        name = "%s to %s%s" % (words[0], out, " over an older one" if others.get("old") else "")
        yield Scene(name, [*words, *more, "-o", out], **others)


def scenes():
    angles = ["--angles", "@../in/angles.txt"]
    sirt = ["recon", "../in/scan.h5", "--method", "sirt", "--iterations", "3"]
    yield from to_each(["phantom", "shepp-logan", "--size", "8"])
    yield from to_each(["project", "../in/volume.h5", "--views", "5"])
    yield from to_each(["recon", "../in/scan.h5"], resume=True)
    yield from to_each(["recon", "../in/scan.h5", "--overwrite"], resume=True, old=b"an older file\n")
    yield from to_each(["prep", "../in/counts.npz", "--rings", "vo"])
    for scan in ("packed.h5", "scan.npy", "scan.tif", "scan.mha", "scan.mhd", "stack", "counts.npz"):
        more = angles if scan.startswith(("scan", "stack")) else []
        yield Scene("recon of " + scan, ["recon", "../in/" + scan, *more, "-o", "out.npy"], True)
    yield Scene("recon of raw", ["recon", "../in/scan.raw16", "--raw", "8,2,32,float32", *angles, "-o", "out.npy"], True)
    for scan in ("scan.h5", "packed.h5", "scan.npy", "scan.tif", "scan.mhd", "stack", "counts.npz", "matrix.mtx",
                 "matrix.npz", "matrix.h5", "volume.h5"):
        yield Scene("info of " + scan, ["info", "../in/" + scan])
    yield Scene("info --verify", ["info", "../in/volume.h5", "--verify"])
    for name in ("mtx", "npz", "h5"):
        yield Scene("matrix to " + name, ["matrix", "../in/scan.h5", "--size", "16,16,1", "-o", "out." + name])
        yield Scene("recon with matrix." + name, [*sirt, "--matrix", "../in/matrix." + name, "-o", "out.npy"],
                    True)
    yield Scene("sirt with files", [*sirt, "--checkpoint", "state", "--every", "1", "--history", "h.csv", "--plot",
                                    "h.png", "--save-recipe", "r.ini", "-o", "out.npy"], True, ("state",))
    yield Scene("sirt resumed", ["recon", "../in/scan.h5", "--method", "sirt", "--iterations", "4", "--checkpoint",
                                 "state", "--resume", "-o", "out.npy"], True, ("state",))
    yield Scene("recipe", ["recon", "../in/scan.h5", "--recipe", "../in/recipe.ini", "-o", "out.npy"], True)
    yield Scene("start and compare", [*sirt, "--start", "../in/start.h5", "--compare", "../in/start.h5", "-o", "out.h5"],
                True)
    yield Scene("backproject", ["backproject", "../in/scan.h5", "-o", "out.h5"])
    yield Scene("center", ["center", "../in/scan.h5", "--sweep", "15:16:1", "--sheet", "out.png"])
    yield Scene("compare", ["compare", "../in/volume.h5", "../in/volume.h5"])
    yield Scene("show", ["show", "../in/volume.h5", "-o", "out.png"])
    yield Scene("curves", ["curves", "../in/history.csv", "--column", "residual", "-o", "out.png"])
    yield Scene("views of a file", ["project", "../in/volume.h5", "--views-file", "../in/geometry.json", "-o", "out.npy"])
    yield Scene("geometry to text", ["convert", "../in/scan.h5", "out.txt"])
    yield Scene("geometry from text", ["recon", "../in/scan.npy", "--views-file", "../in/geometry.txt", "-o", "out.npy"], True)


def snapshot(folder):
    found = {}
    for where, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.relpath(os.path.join(where, name), folder) + "/"] = b""
        for name in files:
            with open(os.path.join(where, name), "rb") as file:
                found[os.path.relpath(os.path.join(where, name), folder)] = file.read()
    return found


class Campaign:
    def __init__(self, settings, scratch):
        self.settings, self.scratch = settings, scratch
        self.bad, self.counts = [], collections.Counter()

    def start(self, scene, folder, fault, log, resume=False):
        words = scene.words + (["--resume"] if resume and "--resume" not in scene.words else [])
        environment = dict(os.environ, TOMOS_TUNE="off", TOMOS_THREADS="1")
        if fault:
            environment.update(FAULT=fault, FAULT_UNDER=self.scratch, FAULT_LOG=log, FAULT_FROM=self.settings.origin,
                               LD_PRELOAD=self.settings.library)
            environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:allocator_may_return_null=1:fast_unwind_on_malloc=0"
            environment["LSAN_OPTIONS"] = "suppressions=%s:print_suppressions=0" % self.settings.leaks
        try:
            done = subprocess.run([self.settings.command, *words, "-q", "--threads", "1"], cwd=folder, env=environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
            return done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            return "hangs", b"", b""

    def fresh(self, folder, scene):
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        if "--resume" in scene.words:
            shutil.copy(os.path.join(self.scratch, "in", "state"), folder)
        if scene.old:
            out = os.path.join(folder, scene.words[-1])
            if out.endswith("/"):
                os.mkdir(out)
                out += "recon_00000.tiff"
            with open(out, "wb") as file:
                file.write(scene.old)

    def judge(self, scene, folder, first, ended, call):
        """What is wrong with the end of a run, or None."""
        (files, lines, before), (code, out, words) = first, ended
        left = snapshot(folder)
        if code not in (0, 1, 2) or b"Sanitizer" in words:
            return "status %s: %s" % (code, words[-3000:].decode(errors="replace"))
        removing = call.split()[0] in ("unlink", "remove", "nftw")
        strange = [k for k in left if left[k] != files.get(k) and left[k] != before.get(k)]
        hidden = [k for k in strange if k.startswith(".")]
        if code == 0:
            others = [k for k in {*left, *files} if left.get(k) != files.get(k) and not (removing and k not in files)]
            if others:
                return "status 0 with other files: " + ", ".join(others)
            return None if out == lines else "status 0 with other words: " + repr(out[-300:])
        if not words.strip():
            return "status %d without a message" % code
        shown = [k for k in strange if k not in hidden and k not in scene.state]
        lost = [k for k in before if k not in left and not any(f in left for f in files)]
        if shown or lost:
            return "wrong or lost: %s (%s)" % (", ".join(shown + lost), words.decode(errors="replace").strip())
        if strange and scene.resume and not removing:
            return self.resume(scene, folder, files)
        if hidden and not removing:
            return "left behind: %s (%s)" % (", ".join(hidden), words.decode(errors="replace").strip())
        return None

    def resume(self, scene, folder, files):
        for name in os.listdir(folder):
            if scene.state and not name.startswith(".") and name not in scene.state:
                os.remove(os.path.join(folder, name))
        code, _, words = self.start(scene, folder, None, None, True)
        left = snapshot(folder)
        if code != 0 or left != files:
            others = [k for k in {*left, *files} if left.get(k) != files.get(k)]
            return "resumed with status %s, different: %s: %s" % (code, others, words.decode(errors="replace"))
        self.counts["resumed"] += 1
        return None

    def each(self, number, scene):
        home = os.path.join(self.scratch, "run%d" % number)
        log = os.path.join(self.settings.logs, "log%d" % number)
        self.fresh(home, scene)
        before = snapshot(home)
        code, lines, words = self.start(scene, home, None, None)
        if code != 0:
            self.wrong("%s fails without a fault: %s" % (scene.name, words.decode(errors="replace")))
            return
        first = (snapshot(home), lines, before)
        for kind in self.settings.kinds.split(","):
            n = 1 + (number * 7) % self.settings.stride
            while self.one(scene, home, first, "%s:%d" % (kind, n), log):
                n += self.settings.stride
        shutil.rmtree(home)

    def one(self, scene, home, first, fault, log):
        if os.path.exists(log):
            os.remove(log)
        self.fresh(home, scene)
        ended = self.start(scene, home, fault, log)
        if not os.path.exists(log):
            return False
        with open(log) as file:
            call = file.read().strip()
        wrong = self.judge(scene, home, first, ended, call)
        kind = fault.split(":")[0]
        self.counts[kind] += 1
        self.counts[kind + (", survived with the right result" if ended[0] == 0 else ", ended with a message")] += not wrong
        if wrong:
            self.wrong("%s, %s (%s): %s" % (scene.name, fault, call, wrong))
        return True

    def wrong(self, what):
        self.bad.append(what)
        print("not ok - " + what, flush=True)


def digest(folder):
    return hashlib.sha256(repr(sorted(snapshot(folder).items())).encode()).hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", type=os.path.abspath)
    parser.add_argument("library", type=os.path.abspath)
    parser.add_argument("--kinds", default="EIO,ENOSPC,EACCES,short")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--origin", default="tomos:libtomos")
    parser.add_argument("--only", default="")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as settings.logs:
        os.mkdir(os.path.join(scratch, "in"))
        make_inputs(settings.command, os.path.join(scratch, "in"))
        whole = digest(os.path.join(scratch, "in"))
        settings.leaks = os.path.join(settings.logs, "leaks")
        with open(settings.leaks, "w") as file:
            file.write("leak:libhdf5\n")  # which loses memory of its own where its reads fail
        campaign = Campaign(settings, scratch)
        todo = [s for s in scenes() if settings.only in s.name]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(campaign.each, range(len(todo)), todo))
        if digest(os.path.join(scratch, "in")) != whole:
            campaign.wrong("an input was changed")
    print("%d commands" % len(todo))
    for name, count in sorted(campaign.counts.items()):
        print("%6d faults, %s" % (count, name))
    print("%d failed" % len(campaign.bad))
    sys.exit(bool(campaign.bad) or not campaign.counts)


if __name__ == "__main__":
    main()
