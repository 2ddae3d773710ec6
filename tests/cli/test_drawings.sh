#!/usr/bin/env bash
# Plots and pictures: axes with labels and ticks, SVG and PNG, planes with scale bar and colour bar, thin stacks.
set -u
sources=$(readlink -f "$2")
# shellcheck source=tests/cli/cli_help.sh
. "$2/tests/cli/cli_help.sh"
PYTHONPATH=$sources/tests/cli
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
looks() { # looks WHAT: a program that asserts
	if python3 - 2>err >out; then ok "$1"; else bad "$1"; fi
}

printf 'iteration,residual,error\n' >fall.csv
for i in $(seq 1 30); do awk "BEGIN { printf \"%d,%.6g,%.6g\n\", $i, 10 ^ (-$i / 6), 0.5 / $i }"; done >>fall.csv
sed 's/,0\.5/,0.4/' fall.csv >other.csv
check "curves as SVG" 0 curves fall.csv other.csv --column residual --title 'a < b & "c"' -o curves.svg
looks "the SVG has labels, decades and a legend" <<'END'
import xml.etree.ElementTree as xml
tree = xml.parse("curves.svg").getroot()
texts = ["".join(t.itertext()) for t in tree.iter("{http://www.w3.org/2000/svg}text")]
for text in ("iteration", "relative residual", "fall", "other", 'a < b & "c"', "0.1", "10⁻⁴", "10", "30"):
    assert text in texts, (text, texts)
lines = [t for t in tree.iter("{http://www.w3.org/2000/svg}polyline") if len(t.get("points").split()) == 30]
assert len(lines) == 2 and lines[0].get("stroke") != lines[1].get("stroke"), lines
END
one=$(printf 'n\303\244chste_messung\303\244\303\244') # the 16th byte is within a letter
cp fall.csv "$one.csv"
cp fall.csv "$(printf 'not \377 UTF-8').csv"
cp fall.csv "a_name_with_many_letters.csv"
cp fall.csv "WWWWWWWWWWWWWWWW.csv"
check "six long names" 0 curves "$one.csv" not*.csv a_name*.csv WWW*.csv fall.csv other.csv --column residual \
	--title "$(printf 'cut \303')" -o names.svg
looks "the legend has several lines, all characters are whole" <<'END'
import xml.etree.ElementTree as xml
tree = xml.parse("names.svg").getroot()
texts = [(float(t.get("x")), float(t.get("y")), "".join(t.itertext()))
         for t in tree.iter("{http://www.w3.org/2000/svg}text")]
names = {text: (x, y) for x, y, text in texts if y < 150}
top = min(float(p.split(",")[1]) for line in tree.iter("{http://www.w3.org/2000/svg}polyline")
          if len(line.get("points").split()) == 30 for p in line.get("points").split())
for name in ("nächste_messungä"[:15], "not \ufffd UTF-8", "a_name_with_many", "W" * 16, "fall", "other"):
    x, y = names[name]
    assert x + 13 * 0.6 * len(name) < 720 and y < top, (name, x, y, top)
assert len({y for name, (x, y) in names.items() if name in ("fall", "a_name_with_many")}) == 2, names
assert "cut \ufffd" in names
END
check "curves as PNG" 0 curves fall.csv -o curves.png
looks "the PNG has colours and smooth lines" <<'END'
import pixels
rows = pixels.read("curves.png")
assert len(rows[0]) == 1440 and len(rows) >= 880, (len(rows[0]), len(rows))
found = {p for row in rows for p in row}
assert (0, 114, 178) in found and (255, 255, 255) in found
assert sum(1 for r, g, b in found if r < g < b) > 20  # shades between the curve and the paper
END
check "no other kind" 2 curves fall.csv -o curves.pdf
has "says which there are" err "must end in .png or .svg"

"$tomos" phantom ball --size 24 --voxel 0.1 -q -o ball.h5 || exit 1
check "a ball" 0 show ball.h5 --range 0,1 -o ball.svg
looks "three planes with titles, a scale bar and a colour bar" <<'END'
import xml.etree.ElementTree as xml
svg = "{http://www.w3.org/2000/svg}"
tree = xml.parse("ball.svg").getroot()
texts = ["".join(t.itertext()) for t in tree.iter(svg + "text")]
for text in ("xy, z = 0.05 mm", "xz, y = -0.05 mm", "yz, x = 0.05 mm", "0.5 mm", "1/mm", "0.0", "1.0"):
    assert text in texts, (text, texts)
images = list(tree.iter(svg + "image"))
assert len(images) == 4 and all(i.get("href").startswith("data:image/png;base64,") for i in images)
bar = [t for t in tree.iter(svg + "polygon")][-1].get("points").split()
length = float(bar[1].split(",")[0]) - float(bar[0].split(",")[0])
assert abs(length / float(images[0].get("width")) - 0.5 / 2.4) < 1e-3, length
END
check "the same as PNG" 0 show ball.h5 --range 0,1 -o ball.png
check "and bare" 0 show ball.h5 --range 0,1 --bare -o bare.png
looks "pixels have the values of the voxels" <<'END'
import pixels
rows = pixels.read("ball.png")
size = 15 * 24  # each voxel is 15 pixels wide
bare = pixels.read("bare.png")
for y in range(24):
    for x in range(24):
        assert rows[30 + 15 * y + 7][16 + 15 * x + 7] == bare[y][x], (y, x)
        assert rows[30 + 15 * y][16 + 15 * x] == bare[y][x], (y, x)
assert len({p for row in bare for p in row}) > 1 and rows[30][15] == (255, 255, 255)
END
check "an own unit" 0 show ball.h5 --unit 'g/cm³' -o unit.svg
has "is written" unit.svg "g/cm³"
check "an invalid unit" 0 show ball.h5 --unit "$(printf 'twenty-nine letters, and one \303\244')" -o cut.svg
looks "ends before a letter that does not fit" <<'END'
import xml.etree.ElementTree as xml
texts = ["".join(t.itertext()) for t in xml.parse("cut.svg").getroot().iter("{http://www.w3.org/2000/svg}text")]
assert "twenty-nine letters, and one " in texts, texts
END
"$tomos" phantom ball --size 12 --voxel 1 -q -o unknown.h5 && "$tomos" phantom ball --size 12 --voxel 1,1,2 -q -o long.h5 || exit 1
check "voxels of size 1" 0 show unknown.h5 -o unknown.svg
has "lengths are voxels" unknown.svg " voxels<"
if grep -q "mm<" unknown.svg; then bad "millimetres of an unknown size"; else ok "no millimetres"; fi
check "voxels that are longer along z" 0 show long.h5 -o long.svg
has "lengths are millimetres" long.svg "1/mm<"
"$tomos" project ball --geometry parallel --columns 24 --rows 4 --views 24 --pixel 0.1 -q -o rays.h5 &&
	"$tomos" recon rays.h5 --hu 1,0.5 -q -o hu.nrrd || exit 1
check "Hounsfield units" 0 show hu.nrrd --range=-5,10 -o hu.svg
has "of the file" hu.svg ">HU<"
if grep -q "1/mm" hu.svg; then bad "another unit of Hounsfield units"; else ok "no other"; fi

"$tomos" phantom ball --size 32,32,8 --voxel 0.1,0.1,0.4 -q -o flat.h5 || exit 1
check "long voxels" 0 show flat.h5 -o flat.svg
looks "planes have the shape of the object" <<'END'
import xml.etree.ElementTree as xml
images = list(xml.parse("flat.svg").getroot().iter("{http://www.w3.org/2000/svg}image"))
assert len(images) == 4
for image in images[:3]:
    assert abs(float(image.get("width")) - float(image.get("height"))) < 1e-6
END
"$tomos" phantom ball --size 64,64,2 --voxel 0.05 -q -o thin.h5 || exit 1
check "a thin stack" 0 show thin.h5 -o thin.png
has "says what is missing" err "2 planes of less than an eighth of the others' size are left out"
looks "no panel is black" <<'END'
import pixels
rows = pixels.read("thin.png")
assert len(rows[0]) < 1.4 * len(rows), (len(rows[0]), len(rows))
below = rows[-20:]
assert all(max(p) > 200 for row in below for p in row[len(row) // 2:]), "black below the plane"
END
# A rod has no plane that shows more than the others; of a tape, only that of its sides does.
"$tomos" phantom ball --size 6,6,120 --voxel 0.05 -q -o rod.h5 && "$tomos" phantom ball --size 20,1,200 --voxel 0.05 -q -o tape.h5 || exit 1
check "a rod" 0 show rod.h5 -o rod.svg
for plane in xy xz yz; do has "all planes" rod.svg "$plane,"; done
check "a tape" 0 show tape.h5 -o tape.svg
has "the useful plane" tape.svg "xz,"
if grep -q "xy," tape.svg; then bad "lines"; else ok "no lines"; fi
check "thin and bare" 0 show thin.h5 --bare -o bare2.png
has "all planes, a pixel a voxel" out "200 x 64 pixels"
check "bare SVG" 2 show thin.h5 --bare -o bare.svg
has "is none" err "--bare: 'bare.svg' must end in .png"

"$tomos" project ball --geometry cone --source-axis 6 --source-detector 9 --views 12 --rows 8 --columns 8 \
	--pixel 0.4 -q -o scan.h5 || exit 1
check "a geometry" 0 info scan.h5 --draw geometry.svg
for word in source "detector, pixel 0,0" axis "from above" "from the side"; do
	has "$word is drawn" geometry.svg "$word"
done
"$tomos" project ball --geometry parallel --views 20 --rows 1 --columns 32 --pixel 0.1 -q -o rows.h5 || exit 1
"$tomos" convert rows.h5 rows.npy -q || exit 1
check "trial slices" 0 center rows.npy --arc 180 --quantity integrals --sweep 15:16:0.5 --sheet sheet.svg
has "with their axis" sheet.svg "axis 15.5"
clean show
echo "$failures failed"
[ "$failures" = 0 ]
