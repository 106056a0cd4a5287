# Two commands do everything on a fresh machine with Python, git and make: `make demo` and `make test`.
# A stamp in the environment remembers what is installed, so a second run installs nothing.

PYTHON ?= python3
VENV   := .venv
BENCH  := .venv-bench
FLOWER := .venv-flower
JAX    := .venv-jax
PIP     = $(VENV)/bin/python -m pip install --quiet --constraint constraints.txt
WORKERS ?= 2

# Small matrices on few cores: threads inside numpy and torch cost more than they bring.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start the command many times: its modules are compiled once, even where the shell says otherwise.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo shell test quick lint types sure guards house figures docs console bench soak fuzz dist clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:  ## say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.core  ## install the core and show what it can do: deniable demo
	@$(VENV)/bin/deniable demo

# What is quickest and fails most often comes first: lint, types, then the rules of the house (tests/running/order.py).
test: lint types  ## install what tests need; lint, types, doctests and all tests
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal --durations=25

# The rules of the house but for those that run pages and examples, and folders that take a moment and import little.
SLOW_RULES := $(addprefix tests/meta/test_,examples.py notebooks.py pages.py site.py tiny_shakespeare.py)
QUICK := $(filter-out $(SLOW_RULES),$(wildcard tests/meta/test_*.py)) $(wildcard tests/test_*.py) tests/running \
  tests/accounting/methods tests/mechanisms tests/sql/read
quick: lint types  ## what to run before a commit, two minutes: lint, types, the rules of the house, quick tests
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal $(QUICK)

sure: $(VENV)/.test  ## tests that draw noise, start processes or listen, 20 times beside a busy machine: none may fail
	$(VENV)/bin/python -m tools.sure --workers $(WORKERS)

guards: $(VENV)/.test  ## put out forty guards, one by one, in a copy of the tree: their tests must fail
	$(VENV)/bin/python -m tools.mutants

lint: $(VENV)/.test  ## ruff: lint and format
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/.test  ## mypy, strict
	$(VENV)/bin/mypy

house: $(VENV)/.test  ## print what one query passes through and how the code reads, beside the aims
	$(VENV)/bin/python -m tools.house

figures: $(VENV)/.docs  ## draw the pictures of the documentation that are missing
	$(VENV)/bin/python -m tools.figures

docs: $(VENV)/.docs figures  ## build the site into site/
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

console: console/node_modules/.package-lock.json  ## build the script and the style of the web console (needs Node.js)
	cd console && npm run --silent types && npm run --silent build

bench: $(VENV)/.test $(BENCH)/.peers $(FLOWER)/.ready $(JAX)/.ready  ## run every benchmark beside its peers; writes docs/benchmarks.md
	@for file in benchmarks/[a-z]*.py; do echo "== $$file"; $(VENV)/bin/python $$file || exit 1; done

soak: $(VENV)/.test $(FLOWER)/.ready fuzz  ## the long tests, with many more random examples, and the fuzzer
	HYPOTHESIS_PROFILE=soak $(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m ""
	$(FLOWER)/bin/python -m pytest -m soak tests/federated/flower

fuzz: $(VENV)/.fuzz  ## feed the readers of losses, units and certificates with grown texts for a minute
	$(VENV)/bin/python tools/fuzz_readers.py 60

shell: $(VENV)/.core  ## open a shell in which `deniable` and its Python are on the PATH
	@echo "deniable $$($(VENV)/bin/deniable --version | cut -d' ' -f2) is on the PATH; leave with exit."
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $${SHELL:-/bin/sh}

dist: $(VENV)/.made  ## build wheel and sdist into dist/, twice, and compare them
	$(PIP) "build>=1.2,<2"
	@export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); \
	  $(VENV)/bin/python -m build --outdir dist . >/dev/null && $(VENV)/bin/python -m build --outdir dist/again . >/dev/null
	@cd dist && for file in *.whl *.tar.gz; do cmp "$$file" "again/$$file" || exit 1; done && rm -r again && ls -l

clean:  ## remove environments, caches and what was built
	rm -rf $(VENV) $(BENCH) $(FLOWER) $(JAX) site dist out console/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------------------------------------ environments

define NEW_VENV
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null || { \
	  echo "Deniable needs Python 3.11 to 3.14, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | grep "^Python" || echo "not there"); say which to use with: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' comes without ensurepip, so no environment can be made; on Debian and Ubuntu install the package python$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv."; exit 1; }
	$(PYTHON) -m venv $(1)
	$(1)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
endef

$(VENV)/.made:
	$(call NEW_VENV,$(VENV))
	@touch $@

# Not quiet: a newcomer sees what is fetched while she waits.
$(VENV)/.core: $(VENV)/.made pyproject.toml
	@echo "Installing Deniable and what its core needs into $(VENV); this takes about a minute."
	@$(VENV)/bin/python -m pip install --constraint constraints.txt --editable .
	@touch $@

# PyTorch first and alone: what depends on it (opacus) then finds the pinned build in place.
$(VENV)/.torch: $(VENV)/.made constraints.txt
	$(PIP) torch
	@touch $@

$(VENV)/.test: $(VENV)/.torch $(VENV)/.core $(VENV)/.programs pyproject.toml constraints.txt
	$(PIP) --editable ".[plot,server]" --group lint --group test --group oracle --group docs
	@# Spark, 400 MB, only where there is a Java to run it; without one its tests say loudly that they did not run.
	@if $(VENV)/bin/python -c 'import sys; from tests.requirements import find_java; sys.exit(find_java() is None)'; \
	  then $(PIP) --editable ".[spark]"; fi
	@touch $@

# Programs that tests drive, from Debian's packages where we may install them; where not, their tests say loudly that
# they did not run.
# Each is a command (or a file) and the package that brings it.
PROGRAMS := chromium:chromium psql:postgresql-client node:nodejs npm:npm /usr/share/java/postgresql.jar:libpostgresql-jdbc-java
$(VENV)/.programs: $(VENV)/.made Makefile
	@missing=""; for pair in $(PROGRAMS); do \
	  command -v "$${pair%%:*}" >/dev/null || [ -e "$${pair%%:*}" ] || missing="$$missing $${pair##*:}"; done; \
	[ -z "$$missing" ] \
	  || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null; } \
	  || echo "Not installed, so some tests will be left out:$$missing (apt-get install, as root)."
	@touch $@

console/node_modules/.package-lock.json: console/package.json console/package-lock.json
	cd console && npm ci --no-audit --no-fund --ignore-scripts

$(VENV)/.fuzz: $(VENV)/.core pyproject.toml
	$(PIP) --group fuzz
	@touch $@

$(VENV)/.docs: $(VENV)/.core pyproject.toml
	$(PIP) --editable ".[plot]" --group docs
	@touch $@

# Flower pins older versions of what the command line uses, so its tests have an environment of their own.
$(FLOWER)/.made:
	$(call NEW_VENV,$(FLOWER))
	@touch $@

$(FLOWER)/.ready: $(FLOWER)/.made pyproject.toml constraints.txt
	$(FLOWER)/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(FLOWER)/bin/python -m pip install --quiet --editable ".[flower]" "flwr[simulation]" --group test
	@touch $@

# Peers that pin old versions of our dependencies live apart and are never among them.
$(BENCH)/.made:
	$(call NEW_VENV,$(BENCH))
	@touch $@

$(JAX)/.made:
	$(call NEW_VENV,$(JAX))
	@touch $@

$(JAX)/.ready: $(JAX)/.made benchmarks/peers/apart/jax.txt
	$(JAX)/bin/python -m pip install --quiet --requirement benchmarks/peers/apart/jax.txt
	@touch $@

$(BENCH)/.peers: $(BENCH)/.made $(wildcard benchmarks/peers/*.txt)
	$(BENCH)/bin/python -m pip install --quiet $(patsubst %,--requirement %,$(wildcard benchmarks/peers/*.txt))
	@touch $@
