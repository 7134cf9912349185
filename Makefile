# Needs python3.11 or later, pip and make; everything else is installed into .venv.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install -qq --no-compile
TORCH := $(shell grep '^torch==' constraints.txt)

.PHONY: setup demo test acceptance lint format docs golden clean

setup: $(VENV)/ready

# On a machine without a GPU, torch is the CPU build: where pip knows one, else from PyTorch's index.
# Byte code is compiled on all cores at the end, which pip does on one, and only where it is used.
$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	command -v nvidia-smi >/dev/null || $(PIP) '$(TORCH)+cpu' 2>/dev/null \
		|| $(PIP) '$(TORCH)' --index-url https://download.pytorch.org/whl/cpu
	$(PIP) -e '.[cpu,s3,pipelines,demo,dev]' -c constraints.txt
	$(BIN)/python -m compileall -qq -j 0 -x '/tests?/|/transformers/models/(?!auto|bert)' $(VENV)/lib src || true
	$(BIN)/python -m multiview.data.punkt
	touch $@

# The main job, here: see README.md. DEMO takes further options of `python -m pipelines run`.
demo: setup
	$(BIN)/python -m pipelines run comparison --preset demo $(DEMO)

# One thread a process: the tests run two at a time, and their models are tiny. In this order the files that
# take minutes do not come last.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# What takes too long for `test`; nothing else should run beside it.
acceptance: setup
	$(BIN)/python -m pytest -m acceptance -s

lint: setup
	$(BIN)/ruff check src pipelines components tests
	$(BIN)/ruff format --check src pipelines components tests
	$(BIN)/pyright
	$(BIN)/python -m pytest tests/manifests/test_overlays.py tests/manifests/test_rules.py

format: setup
	$(BIN)/ruff check --fix src pipelines components tests
	$(BIN)/ruff format src pipelines components tests

# What is written from the code; a test says when it is out of date.
docs: setup
	$(BIN)/multiview config --markdown > docs/configuration.md

# What tests hold: compiled pipelines, defaults, outputs. Look at the difference before committing it.
golden: setup
	$(BIN)/python -m pipelines compile --out tests/pipelines/golden
	$(BIN)/python -m tests.test_config
	$(BIN)/python -m tests.pipelines.test_outputs
	$(BIN)/python -m tests.manifests.built

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info
