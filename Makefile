# Everything there is to do here. `make` alone prints the list; each target sets up what it needs by itself.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
READY := .venv/.ready
# Processes the tests run in; TEST_PROCESSES=0 runs them all in one, with pdb and live output.
TEST_PROCESSES ?= 2
PYTEST := $(BIN)/pytest $(if $(filter-out 0 1,$(TEST_PROCESSES)),-n $(TEST_PROCESSES) --dist loadscope) $(ARGS)

.PHONY: help setup run test check lint types imports bench chaos screenshots examples translations worker scheduler web sandbox clean

help:  ## print this list
	@echo "make TARGET, where TARGET is one of"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "ARGS=… is handed on to the command behind the target."

setup: $(READY)  ## make .venv with everything in it

$(READY): setup.cfg pyproject.toml
	@python=; for candidate in python3.13 python3.12 python3.11 python3; do \
		if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			python=$$candidate; break; \
		fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "rqmail needs Python 3.11 or newer with its venv module (on Debian: apt-get install python3-venv)." >&2; \
		exit 1; \
	fi; \
	if ! $(BIN)/python -c '' 2>/dev/null; then "$$python" -m venv --clear .venv; fi
	@echo "Installing what rqmail needs into .venv; this happens once."
	@PIP_ROOT_USER_ACTION=ignore $(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]'
	@touch $@

run: $(READY)  ## run the whole system locally with a sample campaign; ONCE=1 ends when all mail is accepted
	@$(BIN)/rqmail run $(if $(ONCE),--once) $(ARGS)

test: $(READY)  ## run all tests
	@$(PYTEST)

check: lint types imports  ## lint, format, types, import contracts, tests
	@echo "== tests: on a real Valkey, on SQLite and on PostgreSQL"
	@$(PYTEST)

lint: $(READY)
	@echo "== ruff check: what a linter can know"
	@$(BIN)/ruff check --quiet .
	@echo "== ruff format: one way to lay out code"
	@$(BIN)/ruff format --check --quiet . || { echo "Run .venv/bin/ruff format . to mend this." >&2; exit 1; }

types: $(READY)
	@echo "== mypy --strict: every value has the type it says"
	@$(BIN)/mypy

imports: $(READY)
	@echo "== import-linter: who may import whom"
	@$(BIN)/lint-imports --no-logo >.venv/imports.log || { cat .venv/imports.log; exit 1; }

bench: $(READY)  ## measure against the references, in a table and as JSON; QUICK=1 in a minute
	@$(BIN)/python -m bench $(if $(QUICK),--quick) $(ARGS)

chaos: $(READY)  ## kill and break everything for two minutes, then count what was lost or sent twice; SEED=n repeats
	@$(BIN)/python -m bench.chaos $(if $(SEED),--seed $(SEED)) $(ARGS)

screenshots: $(READY)  ## take the pictures in docs/screenshots anew; needs chromium
	@PYTHONPATH=tests $(BIN)/python -m web.pages.screenshots docs/screenshots

examples: $(READY)  ## run every operation of the API anew and keep its request and answer for the documentation
	@PYTHONPATH=tests $(BIN)/python -m web.api.recording rqmail/web/api/examples.json

translations: $(READY)  ## bring the catalogues of the pages up to date with their sources
	@$(BIN)/pybabel -q extract && $(BIN)/pybabel -q update && $(BIN)/pybabel -q compile -d rqmail/web/translations

worker: $(READY)  ## one worker, on the settings in the environment and .env
	@$(BIN)/rqmail worker $(ARGS)

scheduler: $(READY)  ## the scheduler process
	@$(BIN)/rqmail scheduler $(ARGS)

web: $(READY)  ## the admin pages and the API
	@$(BIN)/rqmail web $(ARGS)

sandbox: $(READY)  ## a Microsoft Graph and Entra of our own, to send to without a tenant
	@$(BIN)/rqmail sandbox $(ARGS)

clean:  ## remove .venv, caches and the data of local runs
	@rm -rf .venv build dist var *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
