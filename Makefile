# make run: train on Adult, see the tables and a report.  make test: lint, types, tests.  Both set themselves up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: run docs evidence bench bench-quick test test-slow lint types format clean fuzz audit faults soak

run: $(VENV)/installed
	$(BIN)/glocalfair compare adult --methods fedavg,glocalfair --partition dirichlet --seeds 5 --output runs/first
	$(BIN)/glocalfair report runs/first --output runs/first/report.html

docs: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open site/index.html"

faults: $(VENV)/installed-dev
	$(BIN)/python tools/fault_table.py

soak: $(VENV)/installed-dev
	$(BIN)/python tools/soak.py

evidence: $(VENV)/installed-dev
	$(BIN)/python experiments/evidence.py
	$(BIN)/python experiments/claims.py

bench: $(VENV)/installed-dev .venv-bench/installed
	$(BIN)/python -m benchmarks --write docs

bench-quick: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks --size quick

.venv-bench/installed: benchmarks/requirements-peers.txt
	@echo "Installing pfl-research and Flower into .venv-bench, for comparison (about two minutes) ..."
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip --disable-pip-version-check install --quiet -r $<
	@touch $@

test: lint types
	$(BIN)/python -m pytest -n auto -m "not slow"

fuzz: $(VENV)/installed-dev
	$(PIP) -c constraints.txt "atheris>=3.0"
	$(BIN)/python tools/fuzz.py --seconds 60

audit: $(VENV)/installed-dev
	$(PIP) -c constraints.txt "pip-audit>=2.9"
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict

test-slow: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing glocalfair into $(VENV) (about a minute the first time) ..."
	$(PIP) -c constraints.txt -e .
	@touch $@

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing glocalfair with its test tools into $(VENV) (about two minutes the first time) ..."
	$(PIP) -c constraints.txt -e ".[dev]"
	@touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
