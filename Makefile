# Two commands do all the set-up: `make demo` and `make test`. Both are quick the second time.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
MODELS := examples/efficientnet_lite0 examples/layout_demo examples/whisper_tiny_en

.PHONY: help demo test test-unit test-long fuzz kill-run chaos chaos-compare lint types types-tier types-examples types-apart check bench parity format clean

help:                ## What there is
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*##/\t/' | expand -t 14

demo: $(VENV)/.demo  ## Start everything, send a photo and a recording, show the way, stop
	@$(BIN)/forebay demo

test: $(VENV)/.test  ## The whole test suite, some of it side by side; JOBS=n
	$(BIN)/pytest -m "not alone" -n $(or $(JOBS),2) --dist loadfile
	$(BIN)/pytest -m alone

test-unit: $(VENV)/.test ## The rooms' tests that need no service
	$(BIN)/pytest tests -m "not service and not system and not parity"

test-long: $(VENV)/.test ## The long forms: ten thousand walks, all orders of steps, two thousand generated calls
	FOREBAY_LONG_TESTS=1 $(BIN)/pytest tests/handoff tests/system/test_openapi.py -k "machine or interleavings or openapi"
	FOREBAY_LONG_TESTS=1 $(BIN)/pytest \
		tests/system/test_installations.py tests/system/test_cache.py tests/system/test_lifecycle.py tests/processors/test_qwen_parity.py \
		tests/processors/test_qwen_sweep.py tests/processors/test_qwen_video_parity.py

fuzz: $(VENV)/.test ## Bytes in disorder for every decoder, twenty minutes; FOR=seconds, SEED=n
	$(BIN)/python -m tests.fuzz.run --seconds $(or $(FOR),1200) --seed $(or $(SEED),0)

kill-run: $(VENV)/.test ## Ten minutes of killing everybody at random; FOR=seconds, SEED=n
	$(BIN)/python -m tests.system.kill_run --seconds $(or $(FOR),600) --seed $(or $(SEED),0)

chaos: $(VENV)/.test ## Ten minutes of load on a whole deployment that is killed, cut and filled; FOR=seconds, SEED=n
	$(BIN)/python -m tests.chaos.run --seconds $(or $(FOR),600) --seed $(or $(SEED),0)

chaos-compare: $(VENV)/.test ## The same strikes on plain Celery and on Forebay; FOR=seconds, SEED=n
	$(BIN)/python -m tests.chaos.compare --seconds $(or $(FOR),120) --seed $(or $(SEED),0)

lint: $(VENV)/.test  ## Format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: types-tier types-examples types-apart ## Strict types; the three may run side by side

types-tier: $(VENV)/.test
	$(BIN)/mypy

types-examples: $(VENV)/.test
	$(BIN)/mypy --cache-dir .mypy_cache/examples --config-file pyproject.toml \
		-p forebay_efficientnet_lite0 -p forebay_layout_demo -p forebay_whisper_tiny_en

types-apart: $(VENV)/.test  # where its library is, and with that library's types
	MYPYPATH=.:examples/pixtral/src $(BIN)/mypy --cache-dir .mypy_cache/apart --follow-imports silent \
		--python-executable $(VENV)/pixtral/bin/python -p forebay_pixtral

check: lint types test ## What CI runs

bench: $(VENV)/.test ## Measure kernel, tier, hand-off, queue and media, print tables, write JSON
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.handoff
	$(BIN)/python -m benchmarks.queue
	$(BIN)/python -m benchmarks.media

parity: $(VENV)/.test ## Compare every family with Hugging Face's own processors, write docs/parity.md
	$(BIN)/python -m tests.processors.parity

format: $(VENV)/.test ## Put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:               ## Remove the virtual environment and caches
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Forebay needs Python 3.11 or later, found " + sys.version)'
	@echo "making $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# torch first and by its exact version: a plain `torch` may be another build of several gigabytes.
$(VENV)/.demo: $(VENV)/.python pyproject.toml constraints.txt requirements/demo.txt $(MODELS:%=%/pyproject.toml)
	@echo "installing Forebay, its demo models and their weights …"
	@$(PIP) torch==2.13.0
	@$(PIP) --editable '.[tier]'
	@$(PIP) --no-deps --requirement requirements/demo.txt
	@rm -f $(VENV)/lib/python*/site-packages/pytest_audioeval-*.dist-info/entry_points.txt  # its plugin lacks what it needs
	@$(PIP) --no-deps $(MODELS:%=--editable %)
	@touch $@

# A model package whose library cannot stand beside the tier's NumPy. Without pip, which takes seconds: ours installs.
$(VENV)/.pixtral: $(VENV)/.python requirements/pixtral.txt
	@echo "installing what the tests' second environment needs …"
	@$(PYTHON) -m venv --clear --without-pip $(VENV)/pixtral
	@$(BIN)/pip --python $(VENV)/pixtral/bin/python install --quiet --disable-pip-version-check --no-deps --no-compile \
		--requirement requirements/pixtral.txt
	@touch $@

$(VENV)/.test: $(VENV)/.demo $(VENV)/.pixtral requirements/test.txt
	@echo "installing what the tests need …"
	@$(PIP) --editable '.[tier,transformers,dev]'
	@$(PIP) --no-deps --upgrade --target $(VENV)/oracle --requirement requirements/test.txt
	@touch $@
