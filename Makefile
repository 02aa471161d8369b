# Each target prepares .venv first. `make demo` and `make test` are all that a newcomer needs.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := label-studio,argilla,hub,train
.PHONY: venv demo test quick lint test-servers bench bench-training ablations soak docs clean

venv: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]" --group dev
	touch $@

demo: venv
	$(BIN)/saferec-build demo --to build/demo

test: venv
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	$(BIN)/pytest

quick: venv
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	$(BIN)/pytest -m "not slow and not servers and not training"

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

soak: venv
	SAFEREC_SOAK=1 $(BIN)/pytest tests/test_hub_faults.py
	$(BIN)/pytest -s -m "slow or servers or soak" tests/test_kill.py tests/test_hub.py tests/test_propose_kill.py
	SAFEREC_FAULTS=200 $(BIN)/pytest -s tests/test_review_campaign.py

docs: venv
	$(BIN)/python -m tests.data_format && $(BIN)/python -m tests.cli_doc
	$(BIN)/zensical build --strict
	@echo "open build/site/index.html"

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
