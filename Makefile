# Two commands for everyone: make demo, make test. The others, for developers: make help.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Files begin in their order, so that those with a single long test are not left to the end.
PARALLEL := -q -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help demo test fast check format docs results benchmarks clean
help:
	@echo "make demo        install the core into $(VENV) and run the demonstration"
	@echo "make test        install everything that the tests need, then run every check and every test"
	@echo "make fast        the checks' and tests' quick tier, for the developer's loop"
	@echo "make check       formatting, lint, types, layers, documentation"
	@echo "make format      let ruff format and repair the code"
	@echo "make results     tables and figures of docs/results, from the kept trials"
	@echo "make benchmarks  every benchmark: ours beside the peers, as ratios"

demo: $(VENV)/.core
	@$(BIN)/rankwise demo

test: $(VENV)/.dev check
	@$(BIN)/python -m pytest $(PARALLEL)

fast: $(VENV)/.dev
	@$(BIN)/ruff check && $(BIN)/ruff format --check --quiet
	@$(BIN)/python -m pytest $(PARALLEL) -m "not slow"

check: $(VENV)/.dev
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(VENV)/.dev
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

docs: $(VENV)/.dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

results: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.pages.results

benchmarks: $(VENV)/.dev
	@for name in compile data metrics objectives plrank trees neural gpu scoring memory scaling; do \
	  echo "== benchmarks.speed.$$name"; $(BIN)/python -m benchmarks.speed.$$name || exit 1; done

clean:
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "rankwise needs Python 3.11 or later; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing rankwise into $(VENV) (about a minute the first time)"
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing rankwise and what its tests need into $(VENV) (about two minutes the first time)"
	@$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.core
