# make install | repro | test | lint | bench | format | clean
PYTHON ?= python3
VENV := .venv
# Stages run as `python -m stages.<name>`: this makes it the project's own python.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: install repro test lint bench format clean
.DEFAULT_GOAL := repro

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

repro: install
	$(VENV)/bin/dvc repro
	@$(VENV)/bin/python -c "import json; print('test mAP: %.2f percent' % json.load(open('metrics/test.json'))['mAP'])"
	@echo "figures: $(CURDIR)/figures"

test: install
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadgroup

lint: install
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

BENCH ?= --help
bench: install  # BENCH="read --images FOLDER --size 224"
	$(VENV)/bin/python -m benchmarks $(BENCH)

format: install
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean:
	rm -rf data model figures .mlml .mypy_cache .ruff_cache .hypothesis
