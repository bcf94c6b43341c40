# make demo   see what timeplex does, on the facts that come with it
# make test   everything that CI checks: lint, types, import rules, tests, coverage
# make quick  the tests without the slow ones
# make lowest the quick tests, with the lowest versions of all libraries that are allowed
# Each sets up .venv by itself on first use (Python 3.11 or later is all it needs).

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test quick lowest lint setup clean

demo: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" tools/demo.sh

# Two processes test at once; more threads than cores would make each many times slower.
test quick lowest: export OMP_NUM_THREADS = 1

# Measuring coverage makes Python twice as slow, and what is long (fuzzing, documents) adds nothing to it.
test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not document" --cov \
	    --cov-report=term-missing:skip-covered
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or document"

quick: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not slow"

lowest: $(READY)
	PYTHON="$(PYTHON)" tools/lowest.sh

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: $(READY)

$(READY): pyproject.toml constraints.txt tools/setup.sh
	PYTHON="$(PYTHON)" tools/setup.sh
	@touch $(READY)

clean:
	rm -rf .venv .venv-lowest .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
