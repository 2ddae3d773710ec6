# The verbs of tomos; the work is done by CMake (CMakePresets.json) and scripts/.
PREFIX ?= /usr/local
# ON: stop at the first compiler warning.
WERROR ?= OFF
# GPUs the CUDA backend is compiled for: auto (the one found), all, or a list such as "80-real;90a-real".
CUDA_ARCHITECTURES ?= auto
# ON: CUDA sources are compiled quickly into slow kernels, to check that they compile.
CUDA_FAST_COMPILE ?= OFF
# OFF: no CUDA backend, also where there is nvcc.
CUDA ?= ON
# Seconds per target of `make fuzz`.
FUZZ_SECONDS ?= 60
# Executions of each instead, where not 0.
FUZZ_RUNS ?= 0
# ON: `make lint` without clang's static analyser, `make sanitize` with fewer tests.
QUICK ?= OFF
# Workloads of `make bench`; none: all of them.
WORKLOADS ?=

JOBS := $(shell nproc 2>/dev/null || echo 2)
CTEST = ctest --output-on-failure --no-tests=error --parallel $(JOBS)

# Older thread sanitizers stop where the kernel spreads addresses widely; this keeps them together.
STEADY = $(shell setarch -R true 2>/dev/null && echo setarch -R)

# $(call build,preset): configures (quick when done before) and builds.
build = cmake --preset $(1) -DTOMOS_WERROR=$(WERROR) \
	-DTOMOS_CUDA_ARCHITECTURES="$(CUDA_ARCHITECTURES)" -DTOMOS_CUDA_FAST_COMPILE=$(CUDA_FAST_COMPILE) $(if $(filter OFF,$(CUDA)),-DTOMOS_CUDA=OFF) >/dev/null && \
	cmake --build --preset $(1)

.PHONY: all demo test test-gpu test-clang test-python test-neon test-long sanitize lint format fuzz mutate bench peers octave install clean help

all:
	@$(call build,release) -t product

demo:
	@scripts/setup --build-only
	@$(call build,release) -t product
	@scripts/demo build/tomos demo

test:
	@scripts/setup --test
	@$(call build,release) -t fast_tests
	@cd build && $(CTEST) -L fast

# What runs on an OpenCL device is compiled by its driver, whichever compiler the rest has, and scripts that
# start the command many times say no more of a compiler than the library's own tests.
test-clang:
	@$(call build,clang) -t fast_tests
	@cd build-clang && $(CTEST) -L fast -LE "^(rules|cli|octave)$$" -E "^opencl_|^test_readme$$"

test-python:
	@scripts/setup --test
	@scripts/test-python build-python

# 77: skipped, as the script says.
test-neon:
	@scripts/test-neon build-neon || [ $$? = 77 ]

test-gpu:
	@scripts/setup --test
	@$(call build,release)
	@cd build && ctest --output-on-failure --no-tests=error -L gpu
	@scripts/check-gpu build || [ $$? = 77 ]

# Faults in calls are tried once more, in part, with the address sanitizer, threads with theirs.
test-long:
	@scripts/setup
	@$(call build,release)
	@cd build && $(CTEST)
	@$(MAKE) --no-print-directory test-clang
	@$(call build,asan) -t tomos_command
	@python3 tests/faults/campaign.py build-asan/tomos build/tests/libfault_calls.so --kinds EIO,ENOSPC,memory --stride 29
	@$(MAKE) --no-print-directory sanitize QUICK=OFF
	@$(call build,tsan) -t long_thread_jobs
	@$(STEADY) build-tsan/tests/long_thread_jobs
	@scripts/lint

# Threads: what starts the command many times has no threads of its own to look at, nor have files and
# geometries; scans of scanners and real ones are computed by the same threads as all others. QUICK: the
# tests of threads themselves and of whole runs, which use the threads of all other parts; of addresses, all but
# heavy tests and those that read the sources.
sanitize:
	@$(call build,asan) -t fast_tests
	@cd build-asan && $(CTEST) -L fast $(if $(filter ON,$(QUICK)),-LE "^(heavy|rules)$$")
	@$(call build,tsan) -t $(if $(filter ON,$(QUICK)),fast_base fast_run tomos_command,fast_tests)
	@cd build-tsan && $(STEADY) $(CTEST) -L fast $(if $(filter ON,$(QUICK)),-L "^(base|run)$$") \
		-LE "^(io|geom|rules|install)$$" -E "_command|recipe|full_disk|measured|damaged_run|^test_cli$$|scanner|real_scans|^test_align$$"

lint:
	@scripts/setup
	@scripts/lint $(if $(filter ON,$(QUICK)),--quick)

format:
	@scripts/format

fuzz:
	@scripts/setup
	@$(call build,fuzz) -t fuzz_targets
	@scripts/fuzz build-fuzz $(FUZZ_SECONDS) $(FUZZ_RUNS)

mutate:
	@scripts/setup --test
	@scripts/mutate

bench: all
	@build/tomos bench $(WORKLOADS)

peers: all
	@bench/peers/run build

octave: all
	@scripts/build-octave build build/octave

install: all
	@cmake --install build --prefix $(PREFIX)

clean:
	@rm -rf build build-debug build-clang build-asan build-tsan build-lint build-fuzz build-neon build-wheel build-python build-mutate demo

help:
	@sed -n 's/^#: //p' Makefile

#: make             build the library and the command into build/
#: make demo        install what is missing, build, simulate a scan and reconstruct it
#:                  CUDA_ARCHITECTURES=all: for every GPU, not only the one found here (a release); CUDA=OFF: without CUDA
#: make test        build and run the fast tests
#: make test-clang  the same with clang
#: make test-python builds the Python package and tests it in a fresh environment
#: make test-neon   the kernels of 64-bit ARM processors, under qemu
#: make test-gpu    the tests of operators and methods on an NVIDIA GPU, some under its sanitizers as well
#: make test-long   all tests, and lint
#: make sanitize    the fast tests with address, undefined and thread sanitizers; QUICK=ON: fewer of them
#: make lint        clang-tidy, cppcheck, format and folder rule; QUICK=ON: without clang's static analyser
#: make format      clang-format over the sources
#: make fuzz        fuzz the file readers; FUZZ_SECONDS=60 each, or FUZZ_RUNS=1000000
#: make mutate      mutation testing: small changes in the sources that no test notices (about an hour)
#: make bench       measure speed; WORKLOADS="a b" for some of the workloads only
#: make peers       measure beside other toolboxes, in a throw-away environment
#: make octave      build the gateway for Octave into build/octave
#: make install     PREFIX=/usr/local; needs no root where PREFIX is yours
#: make clean       remove what the verbs above have built
