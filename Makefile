# Everything here works on a fresh machine with Python 3.11 or newer and make:
# the first call of any target makes .venv, later ones take it as it is.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH := $(VENV)/.torch
TORCH_VERSION := 2.13.0
# Databases of the benchmarks: with them an interrupted run goes on.
KEPT := $(VENV)/bench
SOURCES := src tests $(wildcard bench) $(wildcard examples)

.DEFAULT_GOAL := help
.PHONY: help demo test lint slow bench bench-ops bench-search bench-models format clean torch

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: $(READY)  ## tune a matrix product, verify it, time it beside NumPy and torch
	$(BIN)/python examples/demo.py

test: $(READY) torch lint  ## all checks of a change: lint, types, tests
	$(BIN)/python -m pytest -n $(JOBS) -q -rs

lint: $(READY)  ## style and types
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy --strict src

slow: $(READY) torch  ## the long property tests, many hours on two cores
	$(BIN)/python -m pytest -n $(JOBS) -q -rs -m slow

bench: $(READY) torch  ## speed beside torch; writes bench/results/
	$(BIN)/python bench/kernels.py
	$(BIN)/python bench/space.py
	$(BIN)/python bench/timing.py
	$(BIN)/python bench/containment.py

bench-ops: $(READY) torch  ## the standard operators, tuned, beside torch: hours
	$(BIN)/python bench/ops.py --resume --db $(KEPT)/ops
	$(BIN)/python bench/ops.py --resume --db $(KEPT)/ops --primes
	$(BIN)/python bench/ops.py --resume --db $(KEPT)/ops --seconds 10
	$(BIN)/python bench/summary.py

bench-search: $(READY)  ## the search beside its baselines, transfer: hours
	$(BIN)/python bench/search.py --db $(KEPT)/search
	$(BIN)/python bench/summary.py

bench-models: $(READY) torch  ## whole networks beside their peers: hours
	$(BIN)/python -m pip install --quiet -c constraints.txt \
	  onnxscript openvino torchvision transformers
	$(BIN)/python bench/models.py --db $(KEPT)/models
	$(BIN)/python bench/scheduler.py --db $(KEPT)/scheduler
	$(BIN)/python bench/onnx_suite.py
	$(BIN)/python bench/summary.py

format: $(READY)  ## rewrite the sources in the house style
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

clean:  ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is older than 3.11; try make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

# Optional: tests and benchmarks that compare with torch are skipped without it.
torch: $(READY)
	@test -f $(TORCH) || { \
	  echo "installing torch $(TORCH_VERSION)"; \
	  $(BIN)/python -m pip install --quiet -c constraints.txt torch==$(TORCH_VERSION) \
	    && touch $(TORCH) \
	    || echo "torch $(TORCH_VERSION) could not be installed: its tests are skipped"; }
