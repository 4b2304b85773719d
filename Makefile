# Every command of the project. A fresh machine needs only Python 3.11 or newer, and make.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
BENCH := .venv-bench
BENCH_STAMP := $(BENCH)/.installed
TABLES := .venv-tables
TABLES_STAMP := $(TABLES)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test lint docs gallery bench bench-tables lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with everything for the demo, tests and docs

demo: $(STAMP)  ## train on handwritten digits, refuse foreign ones; answers in demo/
	$(BIN)/diglm demo --out demo

test: $(STAMP)  ## the whole test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(STAMP)  ## style, layers and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

docs: $(STAMP)  ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -q

gallery: $(STAMP)  ## the figures of docs/gallery, drawn anew
	@mkdir -p docs/images/gallery
	@for script in docs/gallery/*.py; do \
	    echo "$$script"; (cd docs/images/gallery && $(CURDIR)/$(BIN)/python $(CURDIR)/$$script) || exit 1; \
	done

bench: $(BENCH_STAMP)  ## time diglm beside other libraries, in an environment of their own
	$(BENCH)/bin/python benchmarks/speed.py

bench-tables: $(TABLES_STAMP)  ## judge diglm beside other models on tables, densities and anomalies
	$(TABLES)/bin/python benchmarks/densities.py
	$(TABLES)/bin/python benchmarks/tables.py
	$(TABLES)/bin/python benchmarks/anomalies.py

# Universal: one file of exact versions, with markers, for every Python and platform supported.
# The filter drops whatever names an index, so that the file serves any mirror.
lock: .venv/.uv  ## write constraints.txt anew from pyproject.toml
	@test -x $(BIN)/uv || { echo "error: make lock needs uv, which could not be installed." >&2; exit 1; }
	$(BIN)/uv pip compile -q --universal --upgrade --python-version 3.11 --extra all \
	    --no-header --no-annotate --no-emit-package diglm pyproject.toml -o .constraints.new
	@{ echo "# Exact versions for Python 3.11 to 3.13, written by \`make lock\` from pyproject.toml."; \
	   grep -vE '^ *(#|--|-[ef] |$$)|://' .constraints.new; } > constraints.txt
	@rm .constraints.new

clean:  ## remove environments, caches and built files
	rm -rf .venv $(BENCH) $(TABLES) site dist demo .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The first Python that is new enough makes the environment. uv installs many times faster than
# pip and is tried first; without it, pip does the same work.
.venv/.uv:
	@for python in "$(PYTHON)" python3 python3.13 python3.12 python3.11; do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        found="$$python"; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "error: diglm needs Python 3.11 or newer; $(PYTHON) is" \
	         "$$("$(PYTHON)" --version 2>&1 || true)." >&2; echo >&2; \
	    echo "hint: install one, then name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	fi; \
	"$$found" -m venv --clear .venv
	@$(BIN)/python -m pip install -q uv \
	    || echo "uv could not be installed; going on with pip, which is slower." >&2
	@touch $@

$(STAMP): pyproject.toml constraints.txt | .venv/.uv
	@echo "Installing diglm into .venv"
	@if [ -x $(BIN)/uv ]; then \
	    $(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e ".[all]"; \
	else \
	    $(BIN)/python -m pip install -q -c constraints.txt -e ".[all]"; \
	fi
	@touch $@

# torch goes first and by pip, which finds a local wheel or the CPU build where pip is told of one.
$(BENCH_STAMP): benchmarks/requirements.txt pyproject.toml | .venv/.uv
	@echo "Installing the compared libraries into $(BENCH)"
	@$(BIN)/python -m venv --clear $(BENCH)
	@$(BENCH)/bin/python -m pip install -q $$(grep '^torch==' benchmarks/requirements.txt)
	@$(BENCH)/bin/python -m pip install -q -r benchmarks/requirements.txt
	@touch $@

$(TABLES_STAMP): benchmarks/requirements-tables.txt pyproject.toml constraints.txt | .venv/.uv
	@echo "Installing tables and the models compared on them into $(TABLES)"
	@$(BIN)/python -m venv --clear $(TABLES)
	@$(TABLES)/bin/python -m pip install -q -c constraints.txt -r benchmarks/requirements-tables.txt
	@touch $@
