"""Options of a command, read from its help, and values for them: valid, at the limits and absurd. For
long_random.py."""
import re

# Valid values of options whose placeholder does not say enough; each is a list to choose from.
VALID = {
    "views": ["8", "12", "13"], "rows": ["1", "2", "4"], "columns": ["12", "17", "18"], "pixel": ["0.1", "1", "2mm"],
    "pixel-height": ["0.1", "0.3"], "arc": ["180", "360", "200"], "angles": ["@angles.txt"],
    "source-axis": ["5", "6"], "source-detector": ["8", "9"], "axis": ["16.5", "15.3", "17"], "axis-row": ["1.5", "2"],
    "roll": ["0.5", "3"], "slant": ["0.5"], "swivel": ["1"], "tilt": ["20", "30"], "pitch": ["0.5", "2"],
    "start": ["10", "-30"], "size": ["8", "12,12,4", "16,10,1", "9,9,3"], "voxel": ["0.1", "0.2,0.1,0.3", "1"],
    "centre": ["0,0,0", "0.1,-0.2,0"], "radius": ["1", "0.01", "100"], "count": ["1", "5"], "seed": ["1", "7"],
    "value": ["0.5", "2"], "samples": ["1", "2"], "window": ["0,1", "-0.5,2"], "compress": ["0", "1", "9"],
    "first-number": ["0", "5", "99998"], "layout": ["projections", "sinograms"], "iterations": ["0", "1", "3"],
    "relaxation": ["0.5", "1", "1.9"], "minimum": ["0", "-0.1"], "maximum": ["0.5", "1"], "blocks": ["1", "3", "4"],
    "strength": ["0.01", "0.5"], "huber": ["0.01", "0.5"], "inner": ["1", "3"], "tolerance": ["1e-3"],
    "noise-level": ["0.01", "0.2"], "every": ["1", "2"], "cutoff": ["0.5", "0.8", "1"], "filter-taps": ["1", "5", "40"],
    "response": ["0,1", "0,0.5,1,0.3"], "floor": ["1e-4", "0.01"], "bad-views": ["0", "2,3", "11"],
    "zinger-level": ["0.1", "0.01"], "zinger-size": ["3", "5"], "ring-snr": ["3", "1.5"], "ring-large": ["0", "1", "5"],
    "ring-small": ["0", "1", "5"], "ring-levels": ["1", "3"], "ring-sigma": ["1", "2.5"], "ring-alpha": ["0.1", "1"],
    "distance": ["60mm", "1"], "energy": ["20keV", "20"], "delta-beta": ["300"], "hardening": ["1", "1,0.1", "auto"],
    "scatter": ["0", "0.01", "auto"], "wedge": ["1,0.5,2,0.9"], "hu": ["0.02", "0.02,0"], "metal-threshold": ["0.1", "0"],
    "bin": ["1", "2"], "steps": ["normalize,log", "normalize,log,rings,bin"], "memory": ["20M", "1G", "0"],
    "axis-range": ["8,26", "10,24"], "photons": ["1000", "1e6"], "noise": ["0.01", "0.1"], "below": ["0.5"],
    "largest": ["1.5"], "precision": ["0.5"], "max": ["0.5", "1e-9"], "range": ["0,1"], "slice": ["0", "-1", "2"],
    "row": ["0", "1"], "sweep": ["15:17:1", "16:16:1"], "repeat": ["1"], "slices": ["1", "2"], "seconds": ["0.01"],
    "title": ["some title"], "dataset": ["/projections", "data", "/exchange/data"],
    "raw": ["12,4,34,float32", "12,4,34,uint16,0,big"], "backend": ["cpu", "auto"], "threads": ["1", "2", "3"],
    "phantom": ["ball"], "json": ["speed.json"], "sheet": ["sheet.png"], "plot": ["plot.png"],
    "history": ["curve.csv"], "save-recipe": ["saved.ini"], "checkpoint": ["state"], "by-view": ["view.png"],
}
RECON_RANGES = {"rows": ["0:1", "1:3", "0:4"], "columns": ["0:34", "2:33"]}
SHIFTS = ["0.5", "-3", ",".join(["0.25"] * 12)]
FILES = {"flats": "flats", "darks": "darks", "views-file": "views", "matrix": "matrix", "recipe": "recipe",
         "compare": "volume", "start": "volume", "truth": "volume", "mask": "volume", "ray-weights": "scan"}
# What takes long when it is large: never merely large, but small or beyond all bounds.
COSTLY = {"size", "views", "columns", "rows", "iterations", "inner", "samples", "count", "repeat", "seconds",
          "slices", "blocks", "precision", "sweep"}
WHOLE = ["0", "1", "2", "3", "4", "-1", "7", "21", "100001"]
WHOLE_ABSURD = ["-1", "2147483647", "2147483648", "4294967297", "9223372036854775807", "-9223372036854775808",
                "3037000501", "99999999999999999999", "1.5", "1e3", "abc", "", "nan", "0x10", " 1"]
REAL = ["0", "1", "-1", "1e-6", "1e6", "0.5", "2", "1e-20", "1e20"]
REAL_ABSURD = ["1e300", "-1e300", "1e308", "3e38", "1e39", "1e-320", "-0", "inf", "nan", "abc", "", "1,2", "1e999"]
TEXT_ABSURD = ["", "x", "/", "..", "nowhere/file", "a" * 300, "\u00fc\u20ac", "a b", "-", "--", "%s%n", "'", "\\"]


class Option:
    def __init__(self, name, form, text):
        self.name, self.form, self.text = name, form, text
        lists = re.findall(r"\(([^()]*)\)$", text)
        plain = lists[-1].split(";")[0] if lists else ""
        self.choices = [c.strip() for c in plain.split(",")] if form == "NAME" else []

    def valid(self, rng, command, use):
        if self.name in FILES:
            return use(FILES[self.name])
        if self.choices and self.name not in VALID:
            return rng.choice(self.choices)
        if command == "recon" and self.name in RECON_RANGES:
            return rng.choice(RECON_RANGES[self.name])
        if self.name in ("shift-x", "shift-y"):
            return rng.choice(SHIFTS)
        if self.name == "angles":
            use("list")
        return rng.choice(VALID.get(self.name, WHOLE))

    def boundary(self, rng):
        if self.name in COSTLY:
            return rng.choice(["0", "1", "2", "0:1", "1,1,1"])
        value = rng.choice(WHOLE if self.form in ("N", "R", "K", "ROW", "Z", "0-9") else REAL)
        return ",".join([value] * rng.choice((1, 1, 2, 3, 12))) if "," in self.form or self.form == "VALUES" else value

    def absurd(self, rng):
        if self.name in COSTLY:
            return rng.choice(["-1", "", "abc", "9223372036854775807", "99999999999999999999", "1:0", "-1:2", "nan"])
        value = rng.choice(rng.choice((WHOLE_ABSURD, REAL_ABSURD, TEXT_ABSURD)))
        return rng.choice((value, value, value + "," + value, "1," + value, value + ":" + value))

    def words(self, rng, command, use, tame):
        if not self.form:
            return ["--" + self.name]
        way = 0 if tame else rng.random()
        value = (self.valid(rng, command, use) if way < 0.6
                 else self.boundary(rng) if way < 0.8 else self.absurd(rng))
        return ["--" + self.name, value]


def parse_help(text):
    """The options of a command by name, from what --help prints."""
    options, heading, body = {}, None, []

    def finish():
        if heading:
            options[heading[0]] = Option(heading[0], heading[1], " ".join(body))
    for line in text.splitlines():
        match = re.match(r"  (?:-\w, )?--([a-z-]+)(?: (\S+))?(?:  +(.*))?$", line)
        if match:
            finish()
            heading, body = (match.group(1), match.group(2) or ""), [match.group(3) or ""]
        elif line.startswith(" " * 20) and heading:
            body.append(line.strip())
        elif not line.startswith("  "):
            finish()
            heading = None
    finish()
    return options


def values_of(words, *names):
    return [value for name, value in zip(words, words[1:]) if name in names]


def mutated(rng, words, options):
    """The words with one value replaced, mostly."""
    places = [i for i in range(1, len(words)) if words[i - 1].startswith("--") and not words[i].startswith("--")]
    if places and rng.random() < 0.4:
        at = rng.choice(places)
        option = options.get(words[at - 1][2:])
        if option:
            words[at] = option.absurd(rng) if rng.random() < 0.6 else option.boundary(rng)
    return words
