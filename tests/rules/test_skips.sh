# What a test says it skipped is listed and counted once, whichever way it says so.
set -euo pipefail
source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/build-x"
cat >"$dir/build-x/LastTest.log" <<'END'
1/4 Testing: test_one
[ RUN      ] on_the_device
[  SKIPPED ] on_the_device
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] on_the_device

 1 SKIPPED TEST(S)
Test Passed.
2/4 Testing: test_two
  avx512: not on this processor, skipped
  nothing was left out here
Test Passed.
3/4 Testing: test_three
skipped: no Octave (Debian has it in octave-dev)
Test Skipped.
4/4 Testing: test_four
[       OK ] slices_and_skips
Test Passed.
END
printf '%s\n' 'SKIPPED [2] ../tests/python/test_torch.py:8: PyTorch is not installed' \
	'389 passed, 2 skipped in 3.00s' >"$dir/build-x/pytest.log"
"$source/scripts/report-skips" "$dir/build-x/LastTest.log" "$dir/build-x/pytest.log" "$dir/none" >"$dir/said"
diff - "$dir/said" <<'END'
skipped, which is not passed: 4 tests or parts of tests in 2 logs
  build-x: PyTorch is not installed: test_torch.py:8
  build-x: avx512: not on this processor, skipped: test_two
  build-x: no Octave (Debian has it in octave-dev): test_three
  build-x: on_the_device: test_one
END
