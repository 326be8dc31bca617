# Two commands for everyone: make demo, make test. The others, for developers: make help.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Byte code of what tests import, before two workers compile it twice. Some files are no Python on purpose.
UNUSED := /(tests?|testing|models|plotly|networkx|fontTools|pip|mypyc?|setuptools|_inductor|onnxruntime|pygments)/
COMPILE := { $(BIN)/python -m compileall -q -x '$(UNUSED)' $(VENV)/lib src >/dev/null 2>&1 || true; }
# Every process of the tests would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

# Files begin in the order of tests/conftest.py, the longest first.
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --durations=20

SERIAL := python -m pytest -q --durations=5

# $(call timed,NAME,COMMAND) runs a step and prints its seconds.
timed = @start=$$(date +%s); $(2); status=$$?; echo "== $(1): $$(($$(date +%s) - start)) s"; exit $$status

.PHONY: test-core help benchmarks-smallest dist docs-release test-matrix demo test test-all test-integrations fast check style types layers pages pytest format docs results benchmarks clean
help:
	@echo "make demo        install the core into $(VENV) and run the demonstration"
	@echo "make test        install everything that the tests need, then run every check and every test"
	@echo "make test-all    the same with all random cases, of which make test runs a tenth"
	@echo "make test-core   the tests of the core alone, without those of wings: at most five minutes"
	@echo "make test-integrations  tests with PyTerrier, MLflow, Ray, …, which it installs into environments of their own"
	@echo "make test-matrix the wheel in empty environments: Pythons, extras, newest and lowest versions, circumstances"
	@echo "make dist        wheel, sdist and their checksums"
	@echo "make fast        the checks' and tests' quick tier, for the developer's loop"
	@echo "make check       formatting, lint, types, layers, documentation"
	@echo "make format      write generated lines, and let ruff format and repair the code"
	@echo "make results     tables and figures of docs/results, from the kept trials"
	@echo "make benchmarks-smallest  whether every benchmark still runs, at its smallest"
	@echo "make benchmarks  every benchmark: ours beside the peers, as ratios"

demo: $(VENV)/.core
	@$(BIN)/rankwise demo

# Types are checked beside the tests, whenever their workers wait for something.
test: style
	@$(MAKE) --no-print-directory -j 2 layers pages types pytest

test-all: export RANKWISE_TESTS := all
test-all: test

# What these libraries require would change what $(VENV) tests, so they lie beside it, in as few environments as agree.
# Under this name a library that is missing is a failure, not a reason to skip.
test-integrations: export RANKWISE_TESTS := integrations
test-integrations: $(VENV)-integrations/.done $(VENV)-mlflow/.done $(VENV)-engines/.done $(VENV)-engines/anserini.jar
	$(call timed,integrations,$(VENV)-integrations/bin/$(SERIAL) tests/integrations $(patsubst %,--ignore=tests/integrations/test_%.py,engines mlflow))
	$(call timed,engines,ANSERINI_JAR=$(VENV)-engines/anserini.jar $(VENV)-engines/bin/$(SERIAL) tests/integrations/test_engines.py)
	$(call timed,MLflow,$(VENV)-mlflow/bin/$(SERIAL) tests/integrations/test_mlflow.py)

# Empty environments, which hold nothing but the wheel and what it requires: every Python that is here, every extra.
test-matrix: $(VENV)/.dev
	@$(BIN)/python -m tests.release.matrix

# Wheel, sdist and checksums; a TAG that is not the version is a mistake. The shell reads it from its environment, as text.
dist: $(VENV)/.dev
	@$(BIN)/python -m tests.release.dist $${TAG:+"$$TAG"}

# The pages of this version beside those of earlier ones.
docs-release: $(VENV)/.dev
	@$(INSTALL) mike
	@$(BIN)/mike deploy --push --update-aliases "$${TAG#v}" latest
	@$(BIN)/mike set-default --push latest  # what the address without a version shows

# What needs a wing, or is about one; pages of the core stay in. Examples use all, and so do tests of kills and of damaged files.
WINGS := src/rankwise/wings tests/wings tests/integrations tests/docs tests/test_examples.py tests/test_wheel.py \
  $(patsubst %,tests/robustness/test_%.py,cluster full_disk fuzz_archives fuzz_logs fuzz_models fuzz_ratings fuzz_specs fuzz_texts kills) \
  $(patsubst %,docs/%.md,auto better catalog clicks custom demo diversity engines experiments explain export fairness goals \
    hybrid inside-engines judges judging linear neural rag recommend remote reports rerank serving similarity skew spark synthetic \
    text tutorial tuning) README.md docs/papers docs/results

test-core: style
	$(call timed,tests of the core,$(PYTEST) $(WINGS:%=--ignore=%))

fast: style
	$(call timed,quick tests,$(PYTEST) -m "not slow")

pytest: $(VENV)/.dev
	$(call timed,tests,$(PYTEST))

check: style types layers pages

style: $(VENV)/.dev
	$(call timed,formatting and lint,$(BIN)/ruff format --check && $(BIN)/ruff check)

types: $(VENV)/.dev
	$(call timed,types,nice $(BIN)/mypy)

layers: $(VENV)/.dev
	$(call timed,layers,$(BIN)/lint-imports)

pages: $(VENV)/.dev
	$(call timed,documentation,NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet)

format: $(VENV)/.dev
	@$(BIN)/python -m tests.generate
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

docs: $(VENV)/.dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

results: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.pages.results

benchmarks: $(VENV)/.dev
	@failed=; for name in compile data metrics objectives plrank trees neural gpu scoring memory scaling; do \
	  echo "== benchmarks.speed.$$name"; $(BIN)/python -m benchmarks.speed.$$name || failed="$$failed $$name"; done; \
	  test -z "$$failed" || { echo "failed or missed a target:$$failed"; exit 1; }

# Each at its smallest: whether it still runs, not what it measures.
benchmarks-smallest: export RANKWISE_TESTS := all
benchmarks-smallest: $(VENV)/.dev
	$(call timed,benchmarks at their smallest,$(PYTEST) tests/docs/test_smallest_benchmarks.py)

clean:
	rm -rf $(VENV) $(VENV)-engines $(VENV)-integrations $(VENV)-mlflow build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "rankwise needs Python 3.11 or later; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --upgrade pip  # Python 3.11's own takes half as long again

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing rankwise into $(VENV) (half a minute the first time)"
	$(call timed,installation of the core,$(INSTALL) --editable .)
	@touch $@

# pip uses one core; on the other the kernels that tests use are compiled.
$(VENV)/.dev: $(VENV)/.core
	@echo "Installing what the tests need into $(VENV) (about a minute the first time)"
	$(call timed,installation,$(BIN)/python -m tests.kernels & $(INSTALL) --editable '.[dev]' && $(COMPILE) && wait)
	@touch $@

# The extras of each environment. Tools of other tests are left out.
$(VENV)-integrations/.done: EXTRAS := dask,ray,spark,terrier,xgboost
$(VENV)-mlflow/.done: EXTRAS := mlflow
$(VENV)-engines/.done: EXTRAS := engines,serve
$(VENV)-engines/.done: MORE := pgserver wordllama  # a server to start, and vectors that come with their package
$(VENV)-%/.done: pyproject.toml constraints.txt
	@echo "Installing rankwise[$(EXTRAS)] into $(@D) (a minute or two the first time)"
	@$(PYTHON) -m venv $(@D)
	$(call timed,installation,$(INSTALL:$(BIN)/%=$(@D)/bin/%) --editable '.[$(EXTRAS)]' hypothesis pytest $(MORE))
	@touch $@

# Lucene, out of an archive of 165 MB.
$(VENV)-engines/anserini.jar: $(VENV)-engines/.done
	@$(@D)/bin/python -m pip download --quiet --disable-pip-version-check --constraint constraints.txt --no-deps --no-binary :all: \
	  --dest $(@D)/sdist pyserini
	@tar -xzf $(@D)/sdist/pyserini-*.tar.gz -O --wildcards '*/anserini-*-fatjar.jar' > $@.part && mv $@.part $@ && rm -r $(@D)/sdist
