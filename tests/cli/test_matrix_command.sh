#!/bin/bash
# tomos matrix and recon with stored matrices, as a user types them; SciPy reads what is written and
# writes what is read, where it is installed (TOMOS_PYTHON names another python3).
#
#   test_matrix_command.sh COMMAND SOURCES
# shellcheck source=tests/cli/cli_help.sh
. "$2/tests/cli/cli_help.sh" "$1" "$2" # without BUILD: runs with every sanitizer
python=${TOMOS_PYTHON:-python3}

check "a phantom" 0 phantom shepp-logan-2d-modified --size 24 -o phantom.h5
check "its scan" 0 project phantom.h5 --views 16 --columns 31 -o scan.h5
size="--size 24,24,1 --voxel 0.0833333333333333"
for ending in mtx npz h5; do
	check "matrix of a scan as $ending" 0 matrix scan.h5 $size -o A.$ending
	has "its size ($ending)" out "wrote A.$ending: 496 rows x 576 columns"
	check "what it is ($ending)" 0 info A.$ending
	check "verified ($ending)" 0 info A.$ending --verify
	has "without checksums ($ending)" out "checksums none"
	has "a matrix ($ending)" out "shape     496 rows (rays) x 576 columns (voxels)"
	has "its entries ($ending)" out "entries   $(sed -n '/^[^%]/{s/.* //p;q}' A.mtx), "
	check "not over another file ($ending)" 1 matrix scan.h5 $size -o A.$ending
	has "why not ($ending)" err "exists already"
done
head -c 20 A.mtx >short.mtx
check "a matrix cut short" 1 info short.mtx
has "its message" err "'short.mtx', line 1: the file is cut short"
check "matrix of options" 0 matrix --views 6 --size 8,8,1 --forward line -o B.mtx
has "as many columns as voxels" out "48 rows x 64 columns"
check "no ending" 2 matrix --views 6 --size 8,8,1 -o B.dat
has "the endings" err ".mtx, .npz, .h5 or .hdf5"
check "options beside a scan" 2 matrix scan.h5 --views 3 -o C.npz
has "no effect" err "--views has no effect"
check "not matched" 2 recon scan.h5 $size --method sirt --stored csr --back voxel -o C.h5
has "the reason" err "is not the adjoint of 'joseph'"

# Every way to keep the matrix gives the image that the projector gives.
check "projector" 0 recon scan.h5 --method sirt $size --iterations 10 -o plain.h5
for way in "--matrix A.mtx" "--matrix A.npz" "--matrix A.h5" "--stored csr" "--stored scsr"; do
	check "recon $way" 0 recon scan.h5 --method sirt $size --iterations 10 $way -o r.h5 --overwrite
	check "the same image $way" 0 compare plain.h5 r.h5 --max 1e-5
done
for method in art sart cgls; do
	check "$method, projector" 0 recon scan.h5 --method $method $size --iterations 2 -o m.h5 --overwrite
	for way in csr scsr; do
		check "$method --stored $way" 0 \
			recon scan.h5 --method $method $size --iterations 2 --stored $way -o r.h5 --overwrite
		check "the same image, $method $way" 0 compare m.h5 r.h5 --max 1e-4
	done
done
check "symmetries are said" 0 recon scan.h5 --method sirt $size --iterations 1 --stored scsr -o r.h5 --overwrite
has "eight" out "8 symmetries"
check "not with fbp" 2 recon scan.h5 $size --matrix A.npz -o no.h5
has "no effect with fbp" err "--matrix has no effect with --method fbp"
check "not with a model" 2 recon scan.h5 --method sirt $size --matrix A.npz --forward line -o no.h5
has "no effect of a model" err "--forward has no effect with --matrix"
check "not both" 2 recon scan.h5 --method sirt $size --matrix A.npz --stored csr -o no.h5
check "another size" 2 recon scan.h5 --method sirt --size 20,20,1 --matrix A.npz -o no.h5
has "which size" err "'A.npz' has 576 columns; 1 x 20 x 20 are 400"

if "$python" -c 'import scipy.sparse, scipy.io' 2>/dev/null; then
	if "$python" >out 2>err <<'END'
import numpy, scipy.io, scipy.sparse
a = scipy.sparse.load_npz("A.npz")
b = scipy.io.mmread("A.mtx").tocsr()
assert a.shape == b.shape == (496, 576) and a.dtype == numpy.float32
assert a.has_sorted_indices and abs(a - b).max() < 1e-6 and a.nnz == b.nnz
scipy.sparse.save_npz("packed.npz", a.astype(numpy.float64), compressed=True)
scipy.sparse.save_npz("stored.npz", a, compressed=False)
scipy.io.mmwrite("scipy.mtx", a)
scipy.sparse.save_npz("csc.npz", a.tocsc())
END
	then ok "SciPy reads npz and mtx"; else bad "SciPy reads npz and mtx"; fi
	for file in packed.npz stored.npz scipy.mtx; do
		check "recon with SciPy's $file" 0 \
			recon scan.h5 --method sirt $size --iterations 10 --matrix $file -o r.h5 --overwrite
		check "the same image, $file" 0 compare plain.h5 r.h5 --max 1e-5
	done
	check "csc is rejected" 1 recon scan.h5 --method sirt $size --matrix csc.npz -o no.h5
	has "why csc is rejected" err "only csr can be read"
else
	echo "skipped - SciPy is not installed"
fi
[ -e no.h5 ] && bad "no.h5 exists"
left=$(find . -name '*.part*')
[ -z "$left" ] || bad "left behind: $left"
echo "$failures failures"
[ "$failures" = 0 ]
