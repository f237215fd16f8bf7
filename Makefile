# Every target sets itself up: a bare Python 3.11 or newer is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.PHONY: demo test slow install lint bench docs clean
.DEFAULT_GOAL := demo

demo: $(READY)  ## recover 20 training images from a model's weights; pictures in demo/
	$(BIN)/exhume demo --out demo

test: $(READY)  ## the test suite, in two processes
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist worksteal

slow: $(READY)  ## the tests that take minutes each
	$(BIN)/python -m pytest -m slow

bench: $(READY)  ## ratio tables, both sides measured in one run
	$(BIN)/python -m benches

docs: $(READY)  ## docs/api.md from the docstrings
	$(BIN)/python docs/build_api.py

lint: $(READY)  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: $(READY)  ## a virtual environment with pinned versions and exhume in it

# torch goes first: nothing installed after it may bring another build of it.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "exhume needs Python 3.11 or newer; name one: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo build
