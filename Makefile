# Everything from a bare machine with Python (3.11 or newer) and make:
#   make demo    the first hunt and its report
#   make test    all tests
# Set-up happens by itself: a virtual environment in .venv, with the versions pinned in constraints.txt.
# It is skipped while pyproject.toml and constraints.txt are unchanged.

PYTHON ?= python3
WORKERS ?= 2
ARGS ?=

VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif

# A stamp is written last, so an install that failed is tried again. The development install holds the
# runtime one, and marks both.
RUNTIME := $(VENV)/.installed-runtime
DEVELOPMENT := $(VENV)/.installed-development
PINS := pyproject.toml constraints.txt

PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo test lint bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo "make demo    set up, then train five small networks on handwritten digits and hunt for their mistakes"
	@echo "make test    set up, then run all tests       (a part: make test ARGS='tests/cli -k help')"
	@echo "make lint    set up, then ruff and mypy"
	@echo "make bench   set up, then the benchmarks"
	@echo "make clean   remove the virtual environment, caches and build leftovers; runs/ is kept"
	@echo "Another Python: make PYTHON=python3.12 test"

demo: $(RUNTIME)
	$(BIN)/foible demo --out runs/demo

# One thread a process: tests run side by side, and fight for the cores otherwise.
test: $(DEVELOPMENT)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(DEVELOPMENT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEVELOPMENT)
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf .venv build dist src/foible.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# setuptools comes first and from the pins, and the build uses it: no second environment with other versions.
define INSTALL
@command -v $(PYTHON) >/dev/null || { echo "there is no $(PYTHON) here: install Python 3.11 or newer, or name yours, as in make PYTHON=python3.12" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("foible needs Python 3.11 or newer, and " + sys.executable + " is " + sys.version.split()[0] + ": give another one, as in make PYTHON=python3.12")'
@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "Creating the virtual environment $(VENV)"; $(PYTHON) -m venv $(VENV); } || { echo "$(PYTHON) -m venv failed: where Python comes in parts, install its venv package too (Debian, Ubuntu: python3-venv)" >&2; exit 1; }
@echo "Installing $(1) into $(VENV) (PyTorch is large: the first time takes minutes)"
@$(PIP) install --quiet --constraint constraints.txt setuptools
@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable '$(2)'
endef

$(RUNTIME): $(PINS)
	$(call INSTALL,foible,.)
	@touch $@

$(DEVELOPMENT): $(PINS)
	$(call INSTALL,foible and its development tools,.[dev])
	@touch $(RUNTIME) $@
