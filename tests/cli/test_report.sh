#!/usr/bin/env bash
# recon --report: one page with everything in it, for analytic and iterative methods and slabs; escaped, complete or not
# there, with the columns and lengths of the scan, and shown by a browser. Nothing in it refers to another file.
set -u
sources=$(readlink -f "$2")
# shellcheck source=tests/cli/cli_help.sh
. "$2/tests/cli/cli_help.sh"
export PYTHONDONTWRITEBYTECODE=1 TOMOS_REPORT_SECONDS=1000
cat >page.py <<'END'
"""Texts, images and links of a page; every tag must be closed."""
import base64
import html.parser
import re
import sys


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.open, self.words, self.images, self.tags, self.references = [], [], [], [], []
        self.feed(open(path, encoding="utf-8").read())
        assert not self.open, self.open
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)
        for name, value in attributes:
            if name in ("href", "src", "srcset", "action", "data"):
                self.references.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)


def check(path, *wanted):
    page = Page(path)
    for word in wanted:
        assert word in page.text, (word, page.text)
    assert "script" not in page.tags and "link" not in page.tags
    source = open(path, encoding="utf-8").read()
    assert "@import" not in source and "url(" not in source and "default-src 'none'" in source
    for reference in page.references:  # nothing but pictures within the page
        assert reference.startswith("data:image/png;base64,"), reference
        picture = base64.b64decode(reference.split(",")[1], validate=True)
        assert picture[:4] == b"\x89PNG" and picture[-8:-4] == b"IEND"
    return page


if __name__ == "__main__":
    check(*sys.argv[1:])
END
page() { # page WHAT FILE WORDS...
	local what=$1
	shift
	if python3 page.py "$@" >out 2>err; then ok "$what"; else bad "$what"; fi
}

# A scan of counts whose axis is off the middle: found, not given.
"$tomos" project shepp-logan-2d-modified --geometry parallel --views 90 --columns 96 --rows 1 --pixel 0.03 --axis 45 \
	-q -o exact.h5 && "$tomos" convert exact.h5 exact.npy -q || exit 1
strange="a & b <i>'\".npy"
cp exact.npy "$strange"
check "a report" 0 recon "$strange" --arc 180 --quantity integrals --pixel 0.03 -o v.h5 --report r.html
has "is named" out "report    r.html"
page "of everything" r.html "Reconstruction of $strange" "tomos recon 'a & b <i>'\\''\".npy'" "parallel beam" \
	"0.03 × 0.03 mm" "column 45.0" "standard error" "Search for the rotation axis" "Sinogram as measured" \
	"The same after preparation" \
	"attenuation (1/mm)" "The middle slice" "(longest)" "CRC-32" "libpng" "90 from 0 to 178 degrees" \
	"parallel beam assumed" "A view as measured"
has "warnings come first" r.html '<div class="warn"'
if grep -qE "<i>|/home/" r.html; then bad "a page with tags or names of others"; else ok "escaped"; fi
host=$(hostname)
if [ ${#host} -lt 4 ]; then
	echo "# the name of this machine, '$host', may be part of a word"
elif grep -qF -e "$host" r.html; then
	bad "a page with the name of the machine"
else
	ok "no name of the machine"
fi
check "a report over a file" 1 recon "$strange" --arc 180 --quantity integrals -o w.h5 --report r.html
has "its message" err "'r.html' exists already; give --overwrite"
absent w.h5
check "a report of another kind" 2 recon "$strange" --arc 180 --quantity integrals -o w.h5 --report r.pdf
has "its message" err "'r.pdf' must end in .html"
check "a report of no run" 2 recon "$strange" --arc 180 --quantity integrals --dry-run --report n.html
has "its message" err "--report has no effect with --dry-run"
absent n.html
check "an output that cannot be written" 1 recon "$strange" --arc 180 --quantity integrals -o none/w.h5 --report n.html
absent n.html

"$tomos" project shepp-logan-modified --geometry parallel --views 90 --columns 96 --rows 2 --pixel 0.03 --axis 45 -q -o two.h5 &&
	"$tomos" convert two.h5 two.npy -q || exit 1
# Columns and pixels are those of the scan, also where they are binned or some are left out.
check "binned columns" 0 recon two.npy --arc 180 --quantity integrals --pixel 0.03 --axis 45 --bin 2 -o b.h5 --report bin.html
page "are those of the scan" bin.html "column 45.00, as given" "0.03 × 0.03 mm" "size: 0.06 mm" "bin 2"
check "a part of the columns" 0 recon two.npy --arc 180 --quantity integrals --pixel 0.03 --axis 45 --columns 10:90 \
	-o c.h5 --report crop.html
page "counted from the first" crop.html "column 45.00, as given"
"$tomos" project ball --value 0 --geometry cone --source-axis 6 --source-detector 9 --views 30 --columns 16 --rows 8 -o none.h5 -q &&
	"$tomos" convert none.h5 none.npy -q || exit 1
check "nothing in the scan" 0 recon none.npy --geometry cone --source-axis 6 --source-detector 9 --pixel 1 --arc 360 \
	--quantity integrals -o n.h5 --report none.html
page "the axis is assumed" none.html "column 7.50, assumed in the middle of the detector"
check "no size of the pixels" 0 recon two.npy --arc 180 --quantity integrals --axis 45 --bin 2 -o u.h5 --report unknown.html
page "lengths in pixels" unknown.html "size not known: lengths are in pixels" "size: 2 pixels" "attenuation (1/pixel)"
if sed 's/base64,[^"]*//g' unknown.html | grep -qw mm; then bad "millimetres of unknown pixels"; else ok "no millimetres"; fi
check "Hounsfield units of pixels" 0 recon two.npy --arc 180 --quantity integrals --axis 45 --hu 0.02 -o hu.nii
has "a warning" err "the attenuation of water of --hu is taken per pixel"
check "pixels of 1 mm" 0 recon two.npy --arc 180 --quantity integrals --axis 45 --pixel 1 -o one.h5 --report one.html
page "are a size" one.html "1 × 1 mm" "size: 1 mm" "attenuation (1/mm)"
TOMOS_REPORT_SECONDS=0 check "no time to read again" 0 recon two.npy --arc 180 --quantity integrals --axis 45 -o o.h5 \
	--report short.html
page "pictures of the scan are left out" short.html "The frames are left out: to read one again would take" \
	"The prepared sinogram is left out" "The middle slice"

# The volume is complete and the comparison fails: the page has all that there is.
"$tomos" convert u.h5 truth.ome.zarr -q && find truth.ome.zarr -path '*/c/*' -type f -exec sh -c 'echo damage >"$1"' sh {} \; || exit 1
check "a truth that cannot be read" 1 recon two.npy --arc 180 --quantity integrals --axis 45 --bin 2 --compare truth.ome.zarr \
	-o d.h5 --report damaged.html
has "says so" err "the volume is complete"
page "a whole page" damaged.html "The middle slice" "parallel beam" "column 45.00" "Sinogram as measured"

"$tomos" project shepp-logan-modified --geometry cone --source-axis 6 --source-detector 9 --views 24 --rows 24 \
	--columns 24 --pixel 0.13 -q -o cone.h5 && "$tomos" phantom shepp-logan-modified --size 24 --voxel 0.0867 -q -o t.h5 || exit 1
check "a cone beam, iterated" 0 recon cone.h5 --method sirt --iterations 5 --size 24 --voxel 0.0867 --compare t.h5 \
	-o cone_v.h5 --report cone.html
page "its page" cone.html "cone beam; source to axis 6 mm, source to detector 9 mm, magnification 1.5" Convergence \
	"Residual and error" "all that were asked for" "Compared with the truth" "xy, z =" "xz, y =" "yz, x =" "as given" "Middle planes"
"$tomos" project shepp-logan-2d-modified --geometry fan --source-axis 6 --source-detector 9 --views 60 --columns 48 \
	--pixel 0.08 --axis 20 -q -o fan.h5 || exit 1
check "a fan beam" 0 recon fan.h5 -o fan_v.h5 --report fan.html -q
page "its page" fan.html "fan beam; source to axis 6 mm, source to detector 9 mm" "view 30" "No step of preparation"
check "bytes in slabs to a folder" 0 recon cone.h5 --type uint8 --memory 14M -o slices/ --report slabs.html
page "its page" slabs.html "slices/" "--type uint8" "24 × 24 × 24"
if grep -q "CRC-32" slabs.html; then bad "checksums of TIFF files, which have none"; else ok "no checksums"; fi
clean "reports"

if [ -r "${TOMOS_DATA:-}/tooth/tooth.h5" ]; then
	check "a measured scan" 0 recon "$TOMOS_DATA/tooth/tooth.h5" -o tooth.h5 --report tooth.html
	page "its page" tooth.html "Frames as measured" "flat field 0" "counts" "181 views of 2 rows × 640 columns, 10 flats, 10 darks" \
		"column 295.9" "Reconstruction of tooth.h5" "tomos recon"
else
	echo "# no measured scan: '${TOMOS_DATA:-}/tooth/tooth.h5' is not there"
	cp r.html tooth.html
fi

# A browser draws the page, without any host to ask. One that does not start may be a stub for another kind of package.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
draw() { # draw ARGUMENTS...
	timeout 300 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
		--disable-background-networking --disable-component-update --user-data-dir="$folder/profile" \
		--host-resolver-rules="MAP * ~NOTFOUND" "$@" >out 2>err
}
if [ -z "$browser" ] || [ -n "$slow" ]; then
	echo "# the browser's part is skipped: ${browser:+sanitizers make no difference to it}${browser:-no chromium}"
elif ! draw --dump-dom about:blank; then
	echo "# the browser's part is skipped: $browser does not start"
elif draw --screenshot="$folder/shot.png" --window-size=1000,2600 "file://$folder/tooth.html"; then
	if PYTHONPATH=$sources/tests/cli python3 - >out 2>err <<'END'; then ok "drawn"; else bad "not drawn"; fi
import pixels
rows = pixels.read("shot.png")
greys = {p for row in rows[:1000] for p in row if p[0] == p[1] == p[2]}
assert len(greys) > 100, len(greys)  # the reconstruction
assert any(p == (0, 114, 178) for row in rows for p in row)  # a curve
END
else
	bad "the browser fails"
fi
echo "$failures failed"
[ "$failures" = 0 ]
