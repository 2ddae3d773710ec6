#!/usr/bin/env python3
"""Runs random command lines of tomos and looks for what must never happen.

  long_random.py TOMOS [--seed N] [--runs M] [--only K] [--jobs J] [--keep FOLDER]

Half of the runs have random options with valid, extreme and absurd values, on files of every format, some of them
damaged. The others compare two command lines that must give the same: threads, slabs, scaled data, views in another
order, stored matrices, resumed runs, reference kernels, formats. A finding is a crash, a sanitizer's report, a hang,
an undocumented exit status, an error without a message, a volume that is not finite with status 0, a changed input,
a file left over, or a difference. Run K of a seed is always the same; --only K repeats it."""
import argparse
import concurrent.futures
import math
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import random_scans  # noqa: E402
import random_words  # noqa: E402

ENDINGS = ("npy", "h5", "tif", "mhd", "mha", "raw", "nxs", "hdf5", "tiff", "nii.gz")
ARRAYS = ("recon", "backproject", "project", "prep", "phantom")  # whose outputs must be finite
STATUSES = (0, 1, 2, 130)
REPORTS = ("AddressSanitizer", "LeakSanitizer", "runtime error:", "UndefinedBehaviorSanitizer")
PATIENCE = 40  # seconds on a loaded machine

PREPARE = ["", "--rings vo", "--rings vo --ring-large 5 --ring-small 3", "--rings vo --ring-snr 1.5",
           "--rings wavelet --ring-levels 2 --ring-sigma 1", "--rings titarenko --ring-alpha 0.1", "--rings pixels",
           "--zingers both --zinger-size 3 --zinger-level 0.1", "--zingers space --zinger-size 5",
           "--zingers time --zinger-size 3", "--hardening 1,0.1", "--bin 2", "--shift-x 0.5", "--bad-views 2,3",
           "--bad-views 2,3 --leave-out",
           "--phase paganin --pixel 1um --distance 60mm --energy 20keV --delta-beta 300"]
FILTER = ["", "--filter hann --cutoff 0.8", "--filter-taps 5", "--response 0,0.5,1", "--padding edge",
          "--interpolation nearest", "--interpolation oversampled"]
PROJECTOR = ["", "", "--forward line", "--forward voxel", "--forward footprint", "--forward joseph --back voxel",
             "--boundary clamp"]
METHODS = {  # linear in the data; slices on their own; whether the order of the views matters
    "sirt": (True, True, False), "art": (True, True, True), "sart": (True, True, True), "block": (True, True, True),
    "cgls": (True, False, False), "lsqr": (True, False, False), "lsmr": (True, False, False),
    "mlem": (True, True, False), "osem": (True, True, True), "fista": (False, False, False),
    "pdhg": (False, False, False), "asd-pocs": (False, False, True)}
WEIGHTED = ("sirt", "sart", "block")


class Finding(Exception):
    pass


class Trial:
    """One run: its folder, its copies of files, what was called."""

    def __init__(self, driver, number):
        self.driver, self.number = driver, number
        self.rng = random.Random("%d/%d" % (driver.seed, number))
        self.folder = tempfile.mkdtemp(prefix="run%d_" % number, dir=driver.folder)
        self.inputs, self.lines = {}, []

    # ---- files ----

    def place(self, name):
        return os.path.join(self.folder, name)

    def use(self, kind):
        """A file of the pool of that kind, copied; now and then damaged, or of another kind."""
        return self.copy(self.rng.choice(self.driver.pool[kind]))

    def copy(self, name, as_name=None):
        source, target = os.path.join(self.driver.pool_folder, name), self.place(as_name or name)
        if not os.path.exists(source) or os.path.exists(target):
            return as_name or name
        if os.path.isdir(source):
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)
        if name.endswith(".mhd"):
            self.copy("plain.raw")
        self.inputs[as_name or name] = random_scans.fingerprint(target)
        return as_name or name

    def damage(self, name):
        path = self.place(name)
        if os.path.isdir(path):
            path = os.path.join(path, self.rng.choice(sorted(os.listdir(path))))
        if not os.path.isfile(path):
            return
        with open(path, "rb") as file:
            content = file.read()
        random_scans.write(path, random_scans.damage(self.rng, content))
        self.inputs[name] = random_scans.fingerprint(self.place(name))

    # ---- commands ----

    def call(self, words, env=None, interrupt=None):
        """Runs tomos; every promise that holds for all commands is checked here."""
        setting = "".join("%s=%s " % item for item in (env or {}).items())
        self.lines.append(setting + "tomos " + " ".join(shlex.quote(w) for w in words))
        before = set(os.listdir(self.folder))
        status, err = self.driver.start(words, self.folder, env, interrupt)
        if any(report in err for report in REPORTS):
            raise Finding("sanitizer: " + err[-3000:])
        if status == "hang":
            raise Finding("hang: no end after %d s, nor soon after Ctrl-C" % PATIENCE)
        if status not in STATUSES:
            raise Finding("status %s: %s" % (status, err[-500:]))
        if status != 0 and "tomos" not in err:
            raise Finding("status %d without a message" % status)
        self.check_files(words, status, err, before)
        return status, err

    def check_files(self, words, status, err, before):
        new = sorted(set(os.listdir(self.folder)) - before)
        hidden = [n for n in new if n.startswith(".") or n.endswith((".part", ".journal", ".tmp"))]
        if status != 130 and hidden:
            raise Finding("status %d, but left over: %s" % (status, hidden))
        kept = ("state",) if "--checkpoint" in words else ()
        if status in (1, 2) and "is complete" not in err and [n for n in new if n not in kept]:
            raise Finding("status %d, but it left %s: %s" % (status, new, err[-300:]))
        written = set(random_words.values_of(words, "-o", "--output", "--sheet", "--plot", "--history", "--save-recipe",
                                "--checkpoint", "--json", "--by-view"))
        if words and words[0] == "convert":
            written.update(words[1:])
        for name, was in self.inputs.items():
            if name not in written and random_scans.fingerprint(self.place(name)) != was:
                raise Finding("the input %s has changed" % name)

    def check_finite(self, name):
        """Of a floating-point output, whatever its format."""
        check = name
        if not name.endswith(".npy"):
            status, err = self.call(["convert", name, "check.npy", "--overwrite", "-q"])
            if status != 0:
                raise Finding("what was written cannot be read: " + err[-300:])
            check = "check.npy"
        values, shape = random_scans.npy_read(self.place(check))
        if not all(math.isfinite(v) for v in values):
            raise Finding("status 0, but %s of shape %s is not finite" % (name, shape))
        return values, shape

    # ---- random options ----

    def wild(self):
        rng = self.rng
        command = rng.choice(self.driver.commands + ["recon"] * 12 + ["prep", "project", "backproject", "center"] * 3)
        options = self.driver.options[command]
        words = [command] + self.operands(command)
        words += random_words.mutated(rng, self.bundles(command), options)
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 4))):
            option = options[rng.choice(sorted(options))]
            if option.name not in ("output", "man", "bash-completion") and "--" + option.name not in words:
                words += option.words(rng, command, self.use, rng.random() < 0.5)
        output = self.output(command)
        if "output" in options and rng.random() < 0.95:
            words += ["-o", output]
        words += {"bench": ["--list"], "tune": ["--size", "8", "--views", "4", "--slices", "1", "--seconds", "0.01"]
                  }.get(command, [])
        if "threads" in options and "--threads" not in words and rng.random() < 0.5:
            words += ["--threads", "1"]
        status, _ = self.call(words)
        integers = any(t in words for t in ("uint16", "uint8"))
        path = self.place(output)
        skipped = integers or "raw" in output or not output or "--help" in words or "-h" in words
        if status == 0 and command in ARRAYS and not skipped and os.path.exists(path):
            self.check_finite(output)

    def operands(self, command):
        rng = self.rng
        kind = {"phantom": None, "project": "volume", "compare": "volume", "curves": "csv", "help": None,
                "version": None, "bench": None, "convert": rng.choice(("scan", "volume", "odd")),
                "show": "volume"}.get(command, "scan" if rng.random() < 0.85 else "odd")
        if command == "phantom" or (command == "project" and rng.random() < 0.3):
            return [rng.choice(self.driver.phantoms)]
        if command == "help":
            return [rng.choice(self.driver.commands + ["nothing"])][:rng.randrange(2)]
        if kind is None or (command in ("matrix", "lambda", "tune") and rng.random() < 0.6):
            return []
        name = self.use(kind)
        if rng.random() < 0.25:
            self.damage(name)
        if command == "compare":
            return [name, self.use("volume")]
        extra = ["--raw", "12,4,34,float32"] if name == "numbers.raw" and "raw" in self.driver.options[command] else []
        return [name] + ([self.output(command)] if command == "convert" else []) + extra

    def output(self, command):
        rng = self.rng
        if command in ("show", "curves"):
            return "out.png"
        if command == "matrix":
            return "out." + rng.choice(("mtx", "npz", "h5", "npy"))
        if rng.random() < 0.05:
            return rng.choice(("nowhere/out.h5", "out.xyz", "out", self.use("volume"), "", "/dev/full", "text.txt/x.npy"))
        return "out/" if rng.random() < 0.12 else "out." + rng.choice(ENDINGS)

    def bundles(self, command):
        """Options that go together, as words."""
        rng = self.rng
        if command == "recon":
            method = rng.choice(["", "", "--method fbp"] + ["--method %s --iterations 2" % m for m in METHODS])
            some = rng.choice(FILTER) if "iterations" not in method else ""
            if method and rng.random() < 0.3 and method.split()[1] in WEIGHTED:
                some = "--weights " + rng.choice(("cimmino", "landweber", "cav", "drop"))
            return " ".join((method, some, rng.choice(PREPARE), rng.choice(PROJECTOR))).split()
        if command in ("prep", "center"):
            return rng.choice(PREPARE).split()
        small = {"phantom": "--size 9", "project": "--views 6 --columns 12 --rows 2",
                 "backproject": rng.choice(PROJECTOR), "matrix": "--views 5 --columns 8 --size 8,8,1",
                 "lambda": "--views 6 --columns 10 --iterations 1 --precision 0.5"}
        return small.get(command, "").split()

    # ---- comparisons ----

    def volume(self, words, name="out.npy", env=None):
        status, err = self.call(words + ["-o", name, "--overwrite", "-q"], env)
        if status != 0:
            return status, err
        return self.check_finite(name)

    def base(self, scans, methods=None):
        """A reconstruction that should go through."""
        rng = self.rng
        scan = self.copy(rng.choice(scans))
        methods = methods or ["fbp"] + list(METHODS)
        method = rng.choice(methods)
        if method == "fbp":
            method = "fdk" if scan[:4] in ("cone", "heli") else "fbp"
            words = rng.choice(FILTER).split()
        else:
            words = ["--iterations", rng.choice("123")] + (rng.choice(PROJECTOR).split())
            if method in WEIGHTED:
                words += ["--weights", rng.choice(("sirt", "sirt", "cimmino", "landweber", "cav", "drop"))]
            if method in ("fista", "pdhg"):
                words += ["--strength", "0.01"]
            if method == "asd-pocs":
                words += ["--noise-level", "0.05", "--inner", "1"]
        return method, ["recon", scan, "--method", method] + words

    def same(self, what, first, second, tolerance):
        """Both went through with the same values, or both did not for the same reason."""
        if isinstance(first[0], int) and isinstance(second[0], int):
            return
        if isinstance(first[0], int) or isinstance(second[0], int):
            raise Finding("%s: only one of the two failed: %s" % (what, first[1] if isinstance(first[0], int)
                                                                 else second[1]))
        (a, shape), (b, other) = first, second
        if len(a) != len(b):
            raise Finding("%s: shapes %s and %s" % (what, shape, other))
        scale = math.sqrt(sum(v * v for v in a))
        apart = math.sqrt(sum((v - w) * (v - w) for v, w in zip(a, b)))
        if apart > tolerance * scale or (tolerance == 0 and a.tobytes() != b.tobytes()):
            raise Finding("%s: relative difference %.3g, allowed %.3g" % (what, apart / (scale or 1), tolerance))

    def compare_threads(self):
        _, words = self.base(ALL_SCANS)
        words += self.rng.choice(PREPARE).split()
        first = self.volume(words, env={"TOMOS_THREADS": "1"})
        self.same("threads", first, self.volume(words, "b.npy", {"TOMOS_THREADS": "2"}), 0)

    def compare_plain(self):
        method, words = self.base(ALL_SCANS)
        change = self.rng.choice((["--plain"], {"TOMOS_CPU": "base"}))
        if method in ("fbp", "fdk") and isinstance(change, list):
            change = {"TOMOS_CPU": "base"}
        first = self.volume(words)
        second = (self.volume(words + change, "b.npy") if isinstance(change, list)
                  else self.volume(words, "b.npy", change))
        self.same("reference kernels", first, second, loose(words))

    def compare_rows(self):
        alone = [m for m, (_, own, _) in METHODS.items() if own] + ["fbp", "fbp"]
        _, words = self.base(["parallel.h5", "offset.h5", "fan.h5", "exchange.h5"], alone)
        if "cimmino" in words or "landweber" in words:
            words += ["--relaxation", "0.001"]
        if "exchange.h5" in words:
            words += ["--axis", "16.5"]
            words += self.rng.choice([p for p in PREPARE if "phase" not in p and "bin" not in p]).split()
        low = self.rng.randrange(3)
        high = self.rng.randrange(low + 1, 4)
        whole = self.volume(words)
        part = self.volume(words + ["--rows", "%d:%d" % (low, high)], "b.npy")
        if not isinstance(whole[0], int):
            size = whole[1][1] * whole[1][2]
            whole = whole[0][low * size:high * size], (high - low,) + whole[1][1:]
        self.same("--rows", whole, part, loose(words))

    def compare_scaled(self):
        linear = [m for m, (yes, _, _) in METHODS.items() if yes] + ["fbp"]
        _, words = self.base(["parallel.h5", "slice.h5", "fan.h5", "cone.h5", "small.h5"], linear)
        factor = 2.0 ** self.rng.choice((-40, -20, -3, 5, 30))
        name = words[1]
        self.call(["convert", name, "copy.npy", "-q"])
        values, shape = random_scans.npy_read(self.place("copy.npy"))
        random_scans.write(self.place("scaled.npy"), random_scans.npy_bytes([factor * v for v in values], shape))
        self.call(["convert", name, "views.json", "-q"])
        first = self.volume(words)
        words[1:2] = ["scaled.npy", "--views-file", "views.json"]
        second = self.volume(words, "b.npy")
        if not isinstance(second[0], int):
            second = [v / factor for v in second[0]], second[1]
            if not any(second[0]):
                raise Finding("scaled data: all voxels are 0")
        self.same("data times %g" % factor, first, second, 1e-4)

    def compare_order(self):
        free = [m for m, (_, _, order) in METHODS.items() if not order]
        name = self.rng.choice(("parallel", "cone", "helix", "fan"))
        _, words = self.base([name + ".h5"], free)
        self.copy(name + ".json")
        self.call(["convert", name + ".h5", "copy.npy", "-q"])
        values, shape = random_scans.npy_read(self.place("copy.npy"))
        order, size = list(range(shape[0])), shape[1] * shape[2]
        self.rng.shuffle(order)
        random_scans.write(self.place("shuffled.npy"), random_scans.npy_bytes(
            [v for i in order for v in values[i * size:(i + 1) * size]], shape))
        random_scans.shuffle_scan(self.folder, name, order)
        first = self.volume(words)
        words[1:2] = ["shuffled.npy", "--views-file", "shuffled.json"]
        self.same("order of the views", first, self.volume(words, "b.npy"), loose(words))

    def compare_stored(self):
        _, words = self.base(["slice.h5", "parallel.h5", "fan.h5", "offset.h5", "cone.h5"], list(METHODS))
        storage = self.rng.choice(("csr", "scsr") if "slice.h5" in words else ("csr",))
        if "--back" in words:
            return
        first = self.volume(words)
        if isinstance(first[0], int):  # art needs rows, which only a matrix of voxel-driven projectors has
            return
        self.same("stored " + storage, first, self.volume(words + ["--stored", storage], "b.npy"), loose(words))

    def compare_formats(self):
        _, words = self.base(["parallel.h5", "cone.h5", "exchange.h5"])
        ending = self.rng.choice(ENDINGS)
        first = self.volume(words)
        output = "out/" if self.rng.random() < 0.2 else "other." + ending
        if ending == "raw" and output != "out/":
            return
        self.same("output " + output, first, self.volume(words, output), 0)

    def compare_inputs(self):
        _, words = self.base(["exchange.h5"])
        words += self.rng.choice(PREPARE).split() + ["--axis", "16.5"]
        if "--pixel" not in words:
            words += ["--pixel", "1.5"]
        first = self.volume(words)
        words[1] = self.copy(self.rng.choice(("nexus.nxs", "measured.npz", "tiffs")))
        if words[1] == "tiffs":
            words += ["--angles", "@" + self.copy("angles.txt")]
        self.same("input " + words[1], first, self.volume(words, "b.npy"), 0)

    def little_memory(self, words):
        """So little that the volume is made in several slabs, as a rejection says."""
        _, err = self.call(words + ["--memory", "1M", "-o", "never.npy", "-q"])
        needed = re.search(r"needs ([0-9.]+) MiB", err)
        return ["--memory", "%dK" % (1024 * float(needed.group(1)) + 12)] if needed else []

    def compare_slabs(self):
        _, words = self.base(ALL_SCANS, ["fbp"])
        words += self.rng.choice(PREPARE).split()
        first = self.volume(words)
        self.same("slabs", first, self.volume(words + self.little_memory(words), "b.npy"), 1e-5)

    def compare_recipe(self):
        _, words = self.base(ALL_SCANS)
        words += self.rng.choice(PREPARE).split()
        first = self.volume(words + ["--save-recipe", "saved.ini"])
        if not isinstance(first[0], int):
            self.same("recipe", first, self.volume(words[:2] + ["--recipe", "saved.ini"], "b.npy"), 0)

    def compare_interrupted(self):
        """Ctrl-C ends any run soon, and what is written is whole."""
        _, words = self.base(ALL_SCANS, list(METHODS))
        words[words.index("--iterations") + 1] = "100000000"
        begin, delay = time.time(), self.rng.choice((0.02, 0.1, 0.3))
        status, err = self.call(words + ["-o", "out.npy"], interrupt=(delay, signal.SIGINT))
        if time.time() - begin > delay + PATIENCE / 2:
            raise Finding("Ctrl-C: ended after %.1f s" % (time.time() - begin - delay))
        if status == 0 or status == 130 and os.path.exists(self.place("out.npy")):
            self.check_finite("out.npy")

    def compare_resumed(self):
        """A run that ended, or was killed at some moment, goes on to the same volume."""
        _, words = self.base(ALL_SCANS, ["fbp"] * 4 + ["sirt", "cgls", "fista", "mlem", "art", "pdhg"])
        output = "b." + self.rng.choice(("npy", "h5", "mhd", "tif"))
        if "--iterations" in words:
            words += ["--checkpoint", "state", "--every", "1"]
        else:
            words += self.little_memory(words)
        first = self.volume(words)
        delay = self.rng.choice((0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.2))
        self.call(words + ["-o", output, "--overwrite", "-q"], interrupt=(delay, signal.SIGKILL))
        self.same("resumed", first, self.volume(words + ["--resume"], output), 0)


ALL_SCANS = [n + ".h5" for n in random_scans.SCANS] + ["exchange.h5", "nexus.nxs", "measured.npz"]
COMPARISONS = [getattr(Trial, n) for n in sorted(dir(Trial)) if n.startswith("compare_")]


def loose(words):
    """How far rounding may take two ways apart: rays along edges of voxels may fall to either side."""
    return 5e-3 if "line" in words or "nearest" in words else 1e-3


class Driver:
    def __init__(self, tomos, seed, folder):
        self.tomos, self.seed, self.folder, self.keep = os.path.abspath(tomos), seed, folder, False
        self.pool_folder = os.path.join(folder, "pool")
        os.mkdir(self.pool_folder)
        self.env = dict(os.environ, HOME=folder, TMPDIR=folder,
                        ASAN_OPTIONS="allocator_may_return_null=1:soft_rss_limit_mb=1500",
                        UBSAN_OPTIONS="print_stacktrace=1", LSAN_OPTIONS="print_suppressions=0:suppressions="
                        + os.path.join(folder, "leaks"))
        # libhdf5 loses what it had opened of a damaged file.
        random_scans.write(os.path.join(folder, "leaks"), b"leak:libhdf5\n")
        os.environ.update(self.env)
        self.pool = random_scans.make_pool(self.tomos, self.pool_folder)
        lines = self.output("help").split("Commands:")[1].split("\n\n")[0].splitlines()
        self.commands = [name for name, *_ in map(str.split, filter(None, lines)) if name != "view"]  # a server
        self.options = {c: random_words.parse_help(self.output(c, "--help")) for c in self.commands}
        listed = self.output("phantom", "--help").split("Phantoms: ")[1].split("\n\n")[0]
        self.phantoms = [p.strip() for p in listed.replace("\n", " ").split(",")]

    def output(self, *words):
        return subprocess.run([self.tomos, *words], check=True, capture_output=True, text=True).stdout

    def start(self, words, folder, env, interrupt):
        """Status and what was printed as errors; `interrupt`: (after seconds, signal)."""
        own = dict(self.env, TOMOS_TUNE=folder + ".tune", **(env or {}))  # what another run tunes has no say here
        process = subprocess.Popen([self.tomos, *words], cwd=folder, env=own,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        delay, number = interrupt or (PATIENCE, signal.SIGINT)
        try:
            _, err = process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            try:
                _, err = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return "hang", ""
            if interrupt and process.returncode == -number:  # Ctrl-C: before it listens
                return 130, "tomos was killed"
        return process.returncode, err.decode(errors="replace")

    def run(self, number):
        """None, or what was found in that run."""
        trial = Trial(self, number)
        try:
            if trial.rng.random() < 0.6:
                trial.wild()
            else:
                trial.rng.choice(COMPARISONS)(trial)
        except Finding as found:
            return "run %d of seed %d: %s\n  %s" % (number, self.seed, found, "\n  ".join(trial.lines))
        finally:
            if not self.keep:
                shutil.rmtree(trial.folder, ignore_errors=True)
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tomos")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", type=int, help="this run alone")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", help="folder to keep files in")
    o = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and pass that on
    numbers = range(o.first, o.first + o.runs) if o.only is None else [o.only]
    folder = tempfile.mkdtemp(prefix="tomos_random_", dir=o.keep)
    driver = Driver(o.tomos, o.seed, folder)
    driver.keep = o.keep is not None
    begin, found = time.time(), 0
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for done, text in enumerate(pool.map(driver.run, numbers), 1):
            if text:
                found += 1
                print(text, flush=True)
            if done % 500 == 0:
                print("%d runs, %d findings, %.0f s" % (done, found, time.time() - begin), flush=True)
    print("seed %d: %d runs from %d on, %d findings, %.0f s" % (
        o.seed, len(numbers), numbers[0], found, time.time() - begin))
    if not o.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
