# Every target sets itself up: a bare Python 3.11 or newer is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.PHONY: demo test slow install lint bench docs serve api wheel test-wheel test-lowest clean
.DEFAULT_GOAL := demo

demo: $(READY)  ## recover 20 training images from a model's weights; pictures in demo/
	$(BIN)/exhume demo --out demo

test: $(READY)  ## the test suite, in two processes
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist worksteal

slow: $(READY)  ## the tests that take minutes each
	$(BIN)/python -m pytest -m slow

bench: $(READY)  ## ratio tables, both sides measured in one run
	$(BIN)/python -m benches

docs: api  ## the documentation site in site/; a broken link is an error
	$(BIN)/mkdocs build --strict

serve: api  ## the documentation site on this machine, built again when a page changes
	$(BIN)/mkdocs serve

api: $(READY)  ## docs/reference/api.md from the docstrings, and the numbers of the explorer
	$(BIN)/python docs/build_api.py
	$(BIN)/python docs/build_explorer.py

wheel: $(READY)  ## dist/: the packages to publish
	rm -rf build dist
	$(BIN)/python -m build

test-wheel:  ## wheel and sdist in an empty environment
	$(PYTHON) .ci/try_install.py

test-lowest:  ## the wheel with the lowest supported versions of its dependencies
	$(PYTHON) .ci/try_install.py --lowest

lint: $(READY)  ## ruff, mypy, import-linter, hadolint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

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
	rm -rf $(VENV) demo build dist site
