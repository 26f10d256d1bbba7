# The front door. `make test` in a fresh clone does all the set-up.
PYTHON ?= python3
VENV   ?= .venv
BUILD  := build/release
ASAN   := build/sanitized
BENCH_MODELS ?= resnet50 mobilenet_v2 efficientnet_b0 unet256_half yolo_n640 vit_b16 bert_base gpt2_small rnn_net mnist
INT8_MODELS ?= $(filter resnet50 mobilenet_v2 bert_base,$(BENCH_MODELS))
BENCH_ARGS ?= --threads 1,2 --rounds 8 --seconds 0.2
LEVEL_MODELS ?= models/digits/digits.onnx $(wildcard models/generated/*.onnx)
TSAN   := build/tsan
VALGRIND := build/valgrind
COVERAGE := build/coverage
FUZZ_RUNS ?= 100000
FUZZ_GRAPHS ?= 5000
FUZZ_MUTANTS ?= 2000
FUZZ_SEED ?= 1
FUZZ_TENSORFLOW ?= 300
FUZZ_VALGRIND ?= 20000
FUZZ_MODELS ?= models/digits/digits.onnx $(wildcard ../shared/models/real/*.onnx)
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)

BIN    := $(VENV)/bin
PY     := $(BIN)/python
# A worker that has nothing left takes tests from the other.
PYTEST := $(BIN)/pytest -n 2 --dist worksteal
STAMP  := $(VENV)/.installed
C_CODE  = $(shell find atcpy examples tests -name '*.[ch]' -o -name '*.inc')
MESON   = PATH="$(abspath $(BIN)):$$PATH" $(BIN)/meson
# When a meson.build changes, meson looks for ninja on the PATH: another version would build all anew.
NINJA   = PATH="$(abspath $(BIN)):$$PATH" $(BIN)/ninja
MODULE  := _kernels.abi3.so

export PYTHONPATH := $(CURDIR)
# Bytecode is kept, also where the environment says otherwise: without it each process compiles every module again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help venv lock build fmt fmt-check lint type test test-all test-share test-shuffled mutants golden conformance levels e2e scale-out bench models demo docs site proto asan tsan valgrind coverage fuzz fuzz-kernels planted fuzz-graphs fuzz-passes fuzz-tensorflow fuzz-importers fuzz-short gate gate-share coverage-python isas amx aarch64 oldest wheel dist reproducible python313 ci clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

venv: $(STAMP) ## make .venv with everything that development needs; LOCK= takes the newest versions, unchecked

# Files of other bytes than the lock says are refused. An index may lack a version: LOCK= installs what pyproject.toml asks for.
LOCK ?= packaging/lock.txt
$(STAMP): pyproject.toml $(LOCK)
	@PYTHON=$(PYTHON) .ci/preflight
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print("\n".join(p["dependencies"] + p["optional-dependencies"]["dev"]))' > $(VENV)/requirements.txt
	$(PY) -m pip install --quiet --disable-pip-version-check $(if $(LOCK),--require-hashes -r $(LOCK),-r $(VENV)/requirements.txt)
	@touch $@

lock: ## write packaging/lock.txt: a version of each package that development needs, with the hashes of all its files; LOCK_ARGS=--upgrade
	test -x build/lock/bin/python || $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes --custom-compile-command "make lock" $(LOCK_ARGS) pyproject.toml -o packaging/lock.txt

$(BUILD)/build.ninja: | $(STAMP)
	$(MESON) setup $(BUILD) -Ddriver=fuzz -Dwerror=true

build: $(BUILD)/build.ninja ## compile the C extension in place (release, warnings are errors)
	@$(NINJA) -C $(BUILD) -j $(JOBS) --quiet
	@rm -f atcpy/kernels/_kernels.cpython-*.so  # of an older build: Python would load it first
	@ln -sf ../../$(BUILD)/atcpy/kernels/csrc/$(MODULE) atcpy/kernels/

fmt: $(STAMP) ## format Python and C
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/clang-format -i $(C_CODE)

fmt-check: $(STAMP)
	$(BIN)/ruff format --check .
	@$(BIN)/clang-format --dry-run -Werror $(C_CODE)

lint: $(STAMP) ## ruff
	$(BIN)/ruff check .

type: $(STAMP) ## mypy --strict
	$(BIN)/mypy

test: build ## the quick tests, with few examples each, and a part of each grid of parameters: three minutes
	$(PYTEST) --quick $(QUICK)

test-all: build ## every test, with all examples; of conformance a sample
	$(PYTEST) --hypothesis-profile=thorough

SHARE ?= 20
test-share: build ## a twentieth of test-all, another each day: in twenty days all; CI_SAMPLE=N repeats one, SHARE=N takes one in N
	$(PYTEST) --hypothesis-profile=thorough --one-in $(SHARE)

# Order and chance: what depends on the tests that ran before shows itself in some order. SHUFFLES="1 2 3 …"
SHUFFLES ?= 1 2 3
test-shuffled: build ## the quick tests in several random orders; SHUFFLES="1 2 3"
	for seed in $(SHUFFLES); do $(PYTEST) --quick --shuffle $$seed || exit 1; done

mutants: build ## plant small bugs in MUTATE=file, one at a time; list those that MUTANT_TESTS="…" miss
	$(PY) -m tests.mutate $(MUTATE) -- $(MUTANT_TESTS)

golden: build ## rewrite tests/golden from what the compiler prints now; review the diff
	$(PYTEST) tests/golden --golden=rewrite

conformance: build ## every test case of the ONNX standard on three engines, or those in ENGINES; CONFORMANCE="--one-in 3"; ACCEPT=1 adds what passes now to the list
	$(PY) -m tests.conformance $(ENGINES:%=--engine %) $(CONFORMANCE) $(if $(ACCEPT),--accept)

levels: build ## unfused and fused packages against one oracle; LEVEL_MODELS="…"
	$(PY) -m tests.e2e.levels $(LEVEL_MODELS)

e2e: build ## the training example on 2 and 4 ranks of MPI, and all ways in which such runs end
	for ranks in 2 4; do $(dir $(PY))mpiexec -n $$ranks $(PY) -m mpi4py -m tests.e2e.training || exit 1; done
	$(PYTEST) tests/e2e/distributed.py

SCALE := build/scale-out
scale-out: build ## score data sets by clusters of two workers, of Dask and of Ray, some of which are killed
	@test -e $(SCALE)/done || { $(PYTHON) -m venv $(SCALE) && $(SCALE)/bin/python -m pip install --quiet pytest 'dask[distributed]>=2026.1' 'ray[data]>=2.50' ml_dtypes protobuf xxhash google-crc32c && touch $(SCALE)/done; }
	$(PY) -m atcpy convert models/digits/digits.onnx --output $(SCALE)/digits.om -q
	cd $(SCALE) && bin/python -m pytest -q -p no:cacheprovider --noconftest -c /dev/null --rootdir . ../../tests/e2e/scale_out.py

bench: build ## time the models of this project beside ONNX Runtime and OpenVINO: figures and a plot in build/bench; BENCH_MODELS="…" BENCH_ARGS="…"
	$(PY) models/make_models.py models/generated $(BENCH_MODELS)
	$(PY) benchmarks/side_by_side.py $(BENCH_MODELS:%=models/generated/%.onnx) $(BENCH_ARGS) --json build/bench/figures.json
	$(PY) benchmarks/ratio_plot.py build/bench/figures.json --svg build/bench/ratios.svg > build/bench/ratios.md
	-$(PY) benchmarks/side_by_side.py $(BENCH_MODELS:%=models/generated/%.onnx) $(BENCH_ARGS) --ours atcpy-bf16 --json build/bench/figures_bf16.json
	$(PY) benchmarks/ratio_plot.py build/bench/figures_bf16.json --svg build/bench/ratios_bf16.svg > build/bench/ratios_bf16.md
	-$(PY) benchmarks/int8_peers.py $(INT8_MODELS:%=models/generated/%.onnx) --schemes s8s8,u8s8,dynamic $(BENCH_ARGS) > build/bench/int8.md
	$(PY) benchmarks/history.py build/bench/figures.json --history benchmarks/history.jsonl --svg docs/pictures/history.svg
	$(PY) benchmarks/rooflines.py $(BENCH_MODELS:%=models/generated/%.onnx) --out build/bench/layers > build/bench/layers.md
	-$(PY) benchmarks/load_times.py $(BENCH_MODELS:%=models/generated/%.onnx) > build/bench/load_times.md
	-$(PY) benchmarks/float64_errors.py $(BENCH_MODELS:%=models/generated/%.onnx) > build/bench/float64_errors.md
	$(PY) benchmarks/cost_model.py $(BENCH_MODELS:%=models/generated/%.onnx) > build/bench/cost-model.md
	$(PY) benchmarks/overhead.py > build/bench/overhead.md
	-$(PY) benchmarks/ops.py --json build/bench/ops.json
	-$(PY) benchmarks/ops.py --from build/bench/ops.json --page build/bench/operator-speed.md

models: build ## make the larger models in models/generated
	$(PY) models/make_models.py models/generated

demo: build ## convert, run, verify and time: the tour
	$(PY) models/demo.py

site: build ## the pages of docs/ and the Python reference as a site in build/site, links checked and pages opened in Chromium
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/pytest -q -n 0 tests/e2e/site.py

docs: build ## rewrite the generated pages of docs/
	$(PY) docs/generate.py

proto: ## rewrite *_pb2.py and their stubs from the .proto files
	test -x build/proto/bin/python || $(PYTHON) -m venv build/proto
	build/proto/bin/python -m pip install --quiet --disable-pip-version-check grpcio-tools==1.85.1
	build/proto/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. $$(find atcpy -name '*.proto')

# One sanitized build: the extension for the tests of kernels, and the fuzzer. What this CPU cannot run is left out.
ASAN_TESTS ?= tests/kernels tests/ops
# Python's own leaks are many: the fuzz targets look for those of the extension. Tests see by which signal a process ends.
ASAN_OPTIONS := detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=12288:handle_segv=0:handle_sigbus=0
AVX512 := $(if $(shell grep -m1 -ow avx512f /proc/cpuinfo),true,false)
$(ASAN)/build.ninja: | $(STAMP)
	$(MESON) setup $(ASAN) -Davx512=$(AVX512) -Damx=emulated --buildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false -Ddriver=fuzz -Dwerror=true

# A tree of links to the Python files beside the extension of another build: the release build stays as it is.
define SITE
	@rm -rf $(1)/site && mkdir -p $(1)/site && cp -rs $(CURDIR)/atcpy $(CURDIR)/examples $(1)/site/ && rm -f $(1)/site/atcpy/kernels/*.so
	@ln -sf ../../../atcpy/kernels/csrc/$(MODULE) $(1)/site/atcpy/kernels/
endef

# libstdc++ is loaded with the sanitizer, or no other extension (onnx) could throw.
asan: build $(ASAN)/build.ninja ## kernel tests under AddressSanitizer and UBSan; ASAN_TESTS=tests for all
	@$(NINJA) -C $(ASAN) -j $(JOBS) --quiet
	$(call SITE,$(ASAN))
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)" PYTHONMALLOC=malloc ASAN_OPTIONS=$(ASAN_OPTIONS) UBSAN_OPTIONS=print_stacktrace=1 \
	PYTHONPATH=$(CURDIR)/$(ASAN)/site $(BIN)/pytest -n 2 --dist worksteal -p no:cacheprovider -o pythonpath="$(ASAN)/site packaging" -m "not slow" $(ASAN_TESTS)

$(TSAN)/build.ninja: | $(STAMP)
	$(MESON) setup $(TSAN) --buildtype=debugoptimized -Db_sanitize=thread -Db_lundef=false -Ddriver=threads -Dwerror=true

tsan: $(TSAN)/build.ninja ## the worker pool, runs of plans by many threads and mapped files under ThreadSanitizer, without Python
	@$(NINJA) -C $(TSAN) -j $(JOBS) --quiet tests/csrc/threads tests/csrc/runs tests/csrc/mapped_files
	TSAN_OPTIONS=halt_on_error=1:die_after_fork=0 timeout 300 $(TSAN)/tests/csrc/threads
	TSAN_OPTIONS=halt_on_error=1 $(TSAN)/tests/csrc/mapped_files
	TSAN_OPTIONS=halt_on_error=1:die_after_fork=0 timeout 300 $(TSAN)/tests/csrc/runs

# Valgrind knows no AVX-512: what its rows leave unwritten, fuzz_kernels finds by two runs over memory of other content.
$(VALGRIND)/build.ninja: | $(STAMP)
	$(MESON) setup $(VALGRIND) -Davx512=false --buildtype=debugoptimized -Dvalgrind=true -Ddriver=fuzz -Dwerror=true

valgrind: build $(VALGRIND)/build.ninja ## kernel launches under Valgrind: no use of memory that nobody wrote; planted bugs are found; FUZZ_VALGRIND=N FUZZ_SEED=S
	@$(NINJA) -C $(VALGRIND) -j $(JOBS) --quiet tests/csrc/fuzz_kernels
	@$(PY) tests/csrc/seed_records.py $(VALGRIND)/launches.bin > /dev/null
	PATH="$(abspath $(BIN)):$$PATH" $(PY) -m tests.fuzz.planted --valgrind
	valgrind -q --error-exitcode=1 $(VALGRIND)/tests/csrc/fuzz_kernels -records=$(VALGRIND)/launches.bin -runs=$(FUZZ_VALGRIND) -seed=$(FUZZ_SEED) -keep=$(VALGRIND)/launch.bin

FUZZERS := $(addprefix tests/csrc/fuzz_,kernels plan symbolic)
# Runs the fuzzers of a build with seeds of some models.
define FUZZ
	@$(NINJA) -C $(1) -j $(JOBS) --quiet $(FUZZERS)
	$(PY) tests/csrc/seed_records.py $(1)/launches.bin $(2)
	$(1)/tests/csrc/fuzz_symbolic -runs=$(FUZZ_RUNS) -seed=$(FUZZ_SEED)
	$(1)/tests/csrc/fuzz_plan -records=$(1)/launches.bin -runs=$(FUZZ_RUNS) -seed=$(FUZZ_SEED) -keep=$(1)/records.bin
	$(1)/tests/csrc/fuzz_kernels -records=$(1)/launches.bin -runs=$(FUZZ_RUNS) -seed=$(FUZZ_SEED) -keep=$(1)/launch.bin
endef

fuzz: build $(ASAN)/build.ninja ## kernel launches, task records and symbolic plans, changed at random, through checkers, kernels and loader; FUZZ_RUNS=N FUZZ_SEED=S FUZZ_MODELS="…"
	$(call FUZZ,$(ASAN),$(FUZZ_MODELS))

# Each run adds to the counts that lie beside the objects. One process: workers of xdist are killed when they take long
# to write theirs.
COVERAGE_TESTS ?= tests/kernels tests/ops tests/aipp tests/runtime tests/om tests/e2e/test_own_models.py tests/e2e/test_graph_kernels.py
$(COVERAGE)/build.ninja: | $(STAMP)
	$(MESON) setup $(COVERAGE) -Davx512=$(AVX512) -Damx=emulated --buildtype=debug -Db_coverage=true -Db_ndebug=true -Ddriver=fuzz -Dwerror=true

coverage: FUZZ_RUNS := 50000
coverage: build $(COVERAGE)/build.ninja ## branches of loader, checkers and kernels that neither tests nor fuzzers with fixed seeds take; COVERAGE_TESTS="…"
	@$(NINJA) -C $(COVERAGE) -j $(JOBS) --quiet
	@find $(COVERAGE) -name '*.gcda' -delete
	$(call FUZZ,$(COVERAGE),models/digits/digits.onnx)
	for isa in avx2 sse2 scalar; do ATCPY_ISA=$$isa $(COVERAGE)/tests/csrc/fuzz_kernels -records=$(COVERAGE)/launches.bin -runs=0 || exit 1; done
	$(call SITE,$(COVERAGE))
	PYTHONPATH=$(CURDIR)/$(COVERAGE)/site $(BIN)/pytest -q -n 0 -p no:cacheprovider -o pythonpath=$(COVERAGE)/site -m "not slow" \
		--deselect tests/kernels/test_hardening.py $(COVERAGE_TESTS)
	@$(PY) -m tests.gate.coverage $(COVERAGE)

fuzz-kernels: $(BUILD)/fuzz_kernels ## kernel launches alone, without sanitizers: twice as many; FUZZ_RUNS=N FUZZ_SEED=S
	$< -records=$(BUILD)/launches.bin -runs=$(FUZZ_RUNS) -seed=$(FUZZ_SEED) -keep=$(BUILD)/launch.bin

planted: build ## plant bugs in checkers and kernels, one at a time: fuzz_kernels must find each; PLANTED="--share 4"
	$(PY) -m tests.fuzz.planted $(PLANTED)

# Built beside the extension, whose kernels it links.
.PHONY: $(BUILD)/fuzz_kernels
$(BUILD)/fuzz_kernels: build
	@$(MESON) configure $(BUILD) -Ddriver=fuzz
	@$(NINJA) -C $(BUILD) -j $(JOBS) --quiet tests/csrc/fuzz_kernels
	@ln -sf tests/csrc/fuzz_kernels $@
	@$(PY) tests/csrc/seed_records.py $(BUILD)/launches.bin

fuzz-graphs: build ## random graphs of all types against float64; FUZZ_GRAPHS=N FUZZ_SEED=S
	$(PY) -W ignore -m tests.fuzz.graphs --count $(FUZZ_GRAPHS) --seed $(FUZZ_SEED)

fuzz-passes: build ## the models of the golden files, changed at random, with passes and without; FUZZ_MUTANTS=N FUZZ_SEED=S
	$(PY) -W ignore -m tests.fuzz.mutations --count $(FUZZ_MUTANTS) --seed $(FUZZ_SEED)

fuzz-tensorflow: build ## random TensorFlow graphs against numpy, and damaged ones; FUZZ_TENSORFLOW=N FUZZ_SEED=S FUZZ_ORACLE=openvino|tensorflow
	$(PY) -W ignore -m tests.parsers.tensorflow.fuzz --count $(FUZZ_TENSORFLOW) --seed $(FUZZ_SEED) --oracle "$(FUZZ_ORACLE)"

fuzz-importers: build ## damaged models and configuration files: each is read or refused; FUZZ_RUNS=N FUZZ_SEED=S FUZZ_ONLY=onnx,options
	$(PY) -m tests.fuzz.importers --runs $(FUZZ_RUNS) --seed $(FUZZ_SEED) --only "$(FUZZ_ONLY)"

# Few rounds with fixed seeds; whoever looks for bugs gives more. Each target is one process.
fuzz-short: build ## each fuzz target for some seconds
	$(MAKE) --no-print-directory -j 2 --output-sync fuzz fuzz-graphs fuzz-passes fuzz-tensorflow FUZZ_RUNS=20000 FUZZ_GRAPHS=150 FUZZ_MUTANTS=60 FUZZ_TENSORFLOW=20 \
		FUZZ_MODELS=models/digits/digits.onnx

gate: build ## the figures of a release, one after the other, and the table of docs/reliability.md; about two hours
	$(PY) -m tests.gate

gate-share: build ## a share of each figure, with fixed seeds
	$(PY) -m tests.gate --share

# What reads and writes packages, and the files that models name; [tool.coverage] of pyproject.toml lists the modules.
COVERED_TESTS := tests/test_files.py tests/om tests/parsers/test_files.py tests/parsers/onnx/test_external.py
coverage-python: build ## fail where a branch of the modules that read and write packages, or open what a model names, is not tested
	@mkdir -p build/coverage
	$(BIN)/coverage run -m pytest --quiet --hypothesis-seed=0 -m "not slow" $(COVERED_TESTS)
	$(BIN)/coverage report

isas: build ## whole models on the kernels of AVX2, on those of SSE2, and on the scalar ones
	for isa in avx2 sse2 scalar; do ATCPY_ISA=$$isa $(PYTEST) --quick tests/e2e/test_real_models.py tests/e2e/test_own_models.py || exit 1; done

# Kernels of AMX with its tiles in plain C: beside the tests of the two families, their launches changed at random.
AMX := build/amx
AMX_TESTS ?= tests/kernels tests/ops/attention tests/ops/quant/test_qgemm.py
$(AMX)/build.ninja: | $(STAMP)
	$(MESON) setup $(AMX) -Damx=emulated -Ddriver=fuzz -Dwerror=true

amx: build ## the kernels for AMX, whose instructions are emulated, against the others, where the CPU has AVX512-BF16
	@if grep -qw avx512_bf16 /proc/cpuinfo; then $(MAKE) --no-print-directory amx-tests; \
	else echo "this CPU has no AVX512-BF16: not tested"; fi

amx-tests: $(AMX)/build.ninja
	@$(NINJA) -C $(AMX) -j $(JOBS) --quiet
	$(call SITE,$(AMX))
	PYTHONPATH=$(CURDIR)/$(AMX)/site REQUIRE_ISA=amx $(BIN)/pytest -q -n 2 -p no:cacheprovider -o pythonpath="$(AMX)/site packaging" -m "not slow" -k "amx" $(AMX_TESTS)
	@$(NINJA) -C $(AMX) -j $(JOBS) --quiet tests/csrc/fuzz_kernels
	@$(PY) tests/csrc/seed_records.py $(AMX)/launches.bin > /dev/null
	for family in matmul qgemm; do $(AMX)/tests/csrc/fuzz_kernels -records=$(AMX)/launches.bin -family=$$family -runs=3000 -seed=$(FUZZ_SEED) -keep=$(AMX)/launch.bin || exit 1; done

ARM := build/aarch64
ARM_FUZZ = qemu-aarch64 -L /usr/aarch64-linux-gnu $(ARM)/tests/csrc/fuzz_kernels -records=$(ARM)/launches.bin -seed=$(FUZZ_SEED) -keep=$(ARM)/launch.bin
aarch64: build ## the kernels for 64-bit Arm, those of NEON, of its dot products and the scalar ones, between guard pages in an emulator, where gcc-aarch64-linux-gnu and qemu-user are
	@if command -v aarch64-linux-gnu-gcc qemu-aarch64 > /dev/null; then $(MAKE) --no-print-directory aarch64-fuzz; \
	else echo "there is no aarch64-linux-gnu-gcc, or no qemu-aarch64: not tested"; fi

aarch64-fuzz:
	@test -e $(ARM)/build.ninja || $(MESON) setup $(ARM) --cross-file packaging/aarch64.ini -Doptimization=1 -Ddriver=fuzz -Dwerror=true
	@$(NINJA) -C $(ARM) -j $(JOBS) --quiet tests/csrc/fuzz_kernels
	@$(PY) tests/csrc/seed_records.py $(ARM)/launches.bin > /dev/null
	$(ARM_FUZZ) -runs=2000
	QEMU_CPU=cortex-a72 $(ARM_FUZZ) -family=qwinograd2d -runs=500  # without dot products, with which it computes by the definition

DIST := build/dist
wheel: $(STAMP) ## the sdist, and the wheels of atcpy and of its runtime made from it, in build/dist
	rm -rf $(DIST)
	$(PY) packaging/wheels.py $(DIST) $(DIST_ARGS)

dist: wheel ## the wheels, each tried in an environment of its own
	$(PY) -m venv $(DIST)/venv
	$(DIST)/venv/bin/python -m pip install --quiet --no-index --no-deps $(DIST)/atcpy-*.whl
	$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$(echo $(DIST)/venv/lib/python*/site-packages)/dependencies.pth
	unset PYTHONPATH; cd $(DIST) && venv/bin/atcpy convert --model ../../models/digits/digits.onnx -o digits -q && venv/bin/atcpy verify digits.om --against ../../models/digits/digits.onnx
	$(PY) -m venv $(DIST)/runtime
	$(DIST)/runtime/bin/python -m pip install --quiet --no-index --no-deps $(DIST)/atcpy_runtime-*.whl
	$(PY) packaging/runtime_wheel.py link $(DIST)/atcpy_runtime-*.whl $(DIST)/runtime/lib/python*/site-packages
	unset PYTHONPATH; cd $(DIST) && venv/bin/atcpy run digits.om --fill ones --npz_out ones.npz -q && runtime/bin/python ../../packaging/try_runtime.py digits.om ones.npz

reproducible: $(STAMP) ## build sdist and wheels of the commit twice, in different folders and environments: they must be equal
	$(PY) packaging/reproducible.py build

python313: ## the quick tests on Python 3.13, where it is
	@if python3.13 -c '' 2>/dev/null; then $(MAKE) test PYTHON=python3.13 VENV=.venv313 BUILD=build/python313; else echo "there is no python3.13 here: not tested"; fi

# Tests that compare generated pages or lists with the locked versions are left out.
OLDEST := build/oldest
OLDEST_TESTS ?= tests/parsers tests/ops tests/exporters tests/rewrite tests/stages tests/om tests/runtime tests/verify tests/quantization tests/cli
oldest: build ## the quick tests with the lowest versions that pyproject.toml allows, in build/oldest; OLDEST_TESTS="…"
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(PY) packaging/lowest.py pyproject.toml > $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -r $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python -m pytest -n 2 --dist worksteal -p no:cacheprovider --quick $(OLDEST_TESTS)

# What leaves a core idle runs beside others: the checks, then whole models and commands, which wait for processes and
# signals; the longest checks start first. What keeps both busy runs alone; the quick tests come last: their summary is
# what a reader of the log looks for. The list of what must pass is atcpy's, of which a fifth is run each day; the other
# engines are run for the page. Of what is built only to be tried once one runs each day, and one of the gate's share and the
# other instruction sets.
of_today = $(word $(shell echo $$(($${CI_SAMPLE:-0} % $(words $(1)) + 1))),$(1))
CI_CHECKS = fmt-check lint $(call of_today,aarch64 dist site) type tsan
CI_MODELS = e2e $(call of_today,gate-share isas) conformance
CI_STEPS := asan fuzz-short planted python313 test-share
ci: export ENGINES := atcpy
ci: export CONFORMANCE := --one-in 5
# Ops of ONNX Runtime become others, whose kernels the other folders test. Of those an eighth runs each day: the fuzzers try
# every kernel with the same sanitizers.
ci: export ASAN_TESTS := tests/kernels tests/ops --ignore=tests/ops/contrib --one-in 8
ci: export PLANTED := --share 3 --seconds 240
ci: export DIST_ARGS := -Csetup-args=-Doptimization=1  # what is packed is tried here, not how fast it is
ci: build ## what .ci/run runs: each step once, with its seconds
	@for step in "$(CI_CHECKS)" "$(CI_MODELS)" $(CI_STEPS); do \
		start=$$(date +%s); $(MAKE) --no-print-directory -j 2 --output-sync $$step || exit 1; \
		echo "ci: $$step took $$(($$(date +%s) - start)) s"; \
	done
	@$(MAKE) --no-print-directory test QUICK="--but-one-in $(SHARE)"  # what test-share ran it ran with more examples

clean: ## remove what was built
	rm -rf build atcpy/kernels/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find atcpy tests -name __pycache__ -prune -exec rm -rf {} +
