# Each target prepares .venv first. `make demo` and `make test` are all that a newcomer needs.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := label-studio,argilla,page,hub,train,ray
# wheels of torch that are taken, as the registry has them; lock/torch.txt of your own for another build
TORCH ?= lock/torch.txt
LOCKED := $(filter Linux-x86_64,$(shell uname -sm | tr " " -))
HASHED := install --quiet --no-deps --require-hashes -r
SHARED := --numprocesses 2 --dist loadfile --no-loadscope-reorder
FAULTY := $(addprefix flows/test_,damage kill bad_day team_database propose_kill training_kill) storage/test_shards \
	storage/test_migrations exports/test_hub exports/test_hub_faults annotation/test_outbox annotation/tools/test_sync \
	annotation/page/test_serving servers/test_review_campaign servers/test_review_page_faults \
	annotation/test_follow flows/test_readers erasure/test_forget \
	flows/test_hostile_files mining/test_rules_version
.PHONY: venv demo test quick lint test-servers bench bench-training ablations real-benchmark soak audit coverage docs clean

venv: .venv/ready

.venv/ready: pyproject.toml constraints.txt $(wildcard lock/*.txt)
	@echo "installing into .venv: up to $(if $(wildcard .venv/lib/*/site-packages/torch-*),.7,3.2) GB to download," \
		"with nothing said for some minutes"
	$(PYTHON) -m venv .venv
ifeq ($(LOCKED),)
	@echo "no hashes are known for this system: versions are pinned, their content is not"
	$(BIN)/pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]" --group dev
else
	$(BIN)/pip $(HASHED) lock/packages.txt
	$(BIN)/pip $(HASHED) $(TORCH)
	if $(BIN)/python -c 'import importlib.metadata as m; exit("nvidia" not in str(m.requires("torch")))'; then \
		$(BIN)/pip $(HASHED) lock/cuda.txt; fi
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/pip check
endif
	touch $@

demo: venv
	$(BIN)/saferec-build demo --to build/demo

# types are checked by one process, beside the tests
define checked
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy & types=$$!; $(BIN)/pytest $(SHARED) $(1); tests=$$?; wait $$types && exit $$tests
endef

test: venv
	$(call checked,--durations=40 --durations-min=1)

quick: venv
	$(call checked,-m "not slow and not servers and not training")

lint: venv
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

test-servers: venv
	$(BIN)/pytest -m servers

bench: venv
	$(BIN)/python -m tests.bench $(ONLY)

bench-training: venv
	$(BIN)/python -m tests.bench training

ablations: venv
	$(BIN)/python -m tests.bench ablations
	test -z "$$SAFEREC_REAL_DATA" || SAFEREC_SEEDS=5 $(BIN)/python -m tests.bench real real_systems

# needs SAFEREC_REAL_DATA; the release and its key file stand in build/real-benchmark/ws/releases, the figures of systems
# in docs/findings.md, those of trained models too where SAFEREC_SEEDS says how many
real-benchmark: venv
	$(BIN)/python -m tests.bench real real_systems

# faults and their sum, inputs of each search, mutants; 200 faults before a real Label Studio take half an hour
soak: venv
	SAFEREC_SOAK=1 SAFEREC_FAULTS=200 $(BIN)/pytest $(SHARED) -m "" --timeout 3600 $(patsubst %,tests/%.py,$(FAULTY))
	SAFEREC_SOAK=1 $(BIN)/pytest $(shell find tests -name 'test_fuzz*.py')
	$(BIN)/python -m tests.fuzz replies --seconds 300
	$(BIN)/python -m tests.fuzz lines --seconds 300
	$(BIN)/python -m tests.mutation nearest --only saferec_builder/core/oracle.py saferec_builder/scoring/metrics.py \
		training/evaluation/rewards.py annotation/confidence_bounds.py

# build/sbom.json: what is installed (CycloneDX); then known advisories on it, which needs the network: without an
# answer it says so and fails
audit: venv
	mkdir -p build && $(BIN)/cyclonedx-py environment --output-file build/sbom.json $(BIN)/python
	$(BIN)/python -m tests.audit

# what the tests reach without servers and training; `make coverage TESTS=` measures all of them
coverage: TESTS := not servers and not training
coverage: venv
	mkdir -p build/coverage && rm -f build/coverage/*
	$(BIN)/coverage run -m pytest -m "$(TESTS)"
	$(BIN)/coverage combine --quiet && $(BIN)/coverage report --skip-covered --fail-under 90

docs: venv
	$(BIN)/python -m tests.data_format && $(BIN)/python -m tests.cli_doc && $(BIN)/python -m tests.promises
	$(BIN)/zensical build --strict
	@echo "open build/site/index.html; with search: $(BIN)/python -m http.server --directory build/site --bind 127.0.0.1"

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
