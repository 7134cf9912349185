# Needs python3.11 or later, pip and make; everything else is installed into .venv.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install -qq --no-compile
TORCH := $(shell grep '^torch==' constraints.txt)

.PHONY: setup demo results-quick test torture acceptance containers bench bench-quick lint format docs golden images wheels lock sbom clean

setup: $(VENV)/tested

# On a machine without a GPU, torch is the CPU build: where pip knows one, else from PyTorch's index. Where that cannot
# be reached, it is the build of the package index.
# Byte code is compiled on all cores at the end, which pip does on one, and only where it is used.
UNUSED := /tests?/|/transformers/models/(?!auto|bert)|/torch/(_inductor|ao|onnx|testing)/|/sympy/physics/|$\
	/moto/(?!core|events|moto_|s3/|utilities|\w+\.py)|$\
	/(databricks|fontTools|matplotlib|networkx|pip|pyasn1_modules|sentence_transformers|setuptools|sklearn)/
COMPILE := $(BIN)/python -W ignore -m compileall -qq -j 0 -x '$(UNUSED)' $(VENV)/lib src || true

define INSTALL
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	command -v nvidia-smi >/dev/null || $(PIP) '$(TORCH)+cpu' 2>/dev/null \
		|| $(PIP) '$(TORCH)' --index-url https://download.pytorch.org/whl/cpu \
		|| { echo "PyTorch's own index cannot be reached: torch is the package index's build, which is for GPUs too" >&2; \
		$(PIP) '$(TORCH)'; }
	$(PIP) -e '.[$(EXTRAS)]' -c constraints.txt
	$(COMPILE)
	$(BIN)/python images/sentence_data.py
endef

# What the main job needs.
$(VENV)/ready: EXTRAS := cpu,pipelines,demo
$(VENV)/ready: pyproject.toml constraints.txt
	$(INSTALL)
	touch $@

# The same with what tests and checks need besides, at once: pip reads and resolves everything a single time.
$(VENV)/tested: EXTRAS := cpu,s3,pipelines,demo,lora,mcp,onnx,qdrant,dev
$(VENV)/tested: pyproject.toml constraints.txt
	$(INSTALL)
	touch $(VENV)/ready $@

# The main job, here: see README.md. DEMO takes further options of `python -m pipelines run`.
demo: $(VENV)/ready
	$(BIN)/python -m pipelines run comparison --preset demo $(DEMO)

# The smallest table of docs/results-tables.md, on SQuAD in MULTIVIEW_DATA, in four minutes. RESULTS takes further options.
results-quick: $(VENV)/ready
	$(BIN)/python -m pipelines run comparison --preset results-quick $(RESULTS)

# Tests keep their files in memory where it has room: MLflow's databases alone wait for a disk thousands of times.
MEMORY := $(shell test $$(df --output=avail -BG /dev/shm 2>/dev/null | tail -n 1 | tr -dc 0-9) -ge 8 2>/dev/null && echo /dev/shm)

# One thread per process: the tests run several at a time, and their models are tiny. Files are begun in the order in
# which they are collected, the longest first (tests/conftest.py). What pytest and the processes that tests start
# compile is kept, wherever the environment says that Python should keep none.
PYTEST := folder=$$(mktemp -d $(if $(MEMORY),-p $(MEMORY))) && trap 'rm -rf "$$folder"' EXIT INT TERM && $\
	PYTHONDONTWRITEBYTECODE= TMPDIR=$$folder OMP_NUM_THREADS=1 $\
	$(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder

test: setup
	$(PYTEST) -n 2

# What is broken on purpose (docs/reliability.md) and takes too long for `test`, which has the quick part of it. Three at
# a time: they wait for servers that do not answer.
torture: $(VENV)/fuzzed
	$(PYTEST) -n 3 -m 'torture or fuzz' -k 'not sample' --hypothesis-profile torture \
		tests/torture tests/bad_input tests/pipelines/runs/test_crashes.py

# What coverage-guided fuzzing needs besides.
$(VENV)/fuzzed: $(VENV)/tested
	$(PIP) -e '.[fuzz]' -c constraints.txt
	touch $@

# What models on MTEB's tasks need besides.
$(VENV)/evaluated: $(VENV)/tested
	$(PIP) -e '.[mteb]' -c constraints.txt
	touch $@

# What takes too long for `test`; nothing else should run beside it.
acceptance: setup $(VENV)/evaluated
	$(BIN)/python -m pytest -m acceptance -s

# The part of `acceptance` that builds the images and runs a pipeline with every step in its own container.
containers: setup
	$(BIN)/python -m pytest -m acceptance -s tests/images

# What peers of benchmarks need besides.
$(VENV)/measured: $(VENV)/tested
	$(PIP) -e '.[bench]' -c constraints.txt
	touch $@

# All benchmarks in one table (docs/performance.md), in half an hour on two cores; `bench-quick` takes five minutes. On
# SQuAD in MULTIVIEW_DATA. BENCH takes further options.
bench bench-quick: $(VENV)/measured
	$(BIN)/python -m benchmarks --size $(if $(filter bench-quick,$@),quick,whole) $(BENCH)

# One of them, with options of its own in BENCH: benchmarks/search.py is `bench-search`, index_kinds.py `bench-index-kinds`.
bench-%: $(VENV)/measured
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.$(subst -,_,$*) $(BENCH)

# The table of a GPU, with all cores, in ten minutes: BENCH='--minutes 3.5 --out gpu.md' takes what matters most.
bench-gpu: $(VENV)/measured
	$(BIN)/python -m benchmarks.gpu $(BENCH)

# The protocols of the versions of KFP that take our pipelines (docs/kubeflow.md), each in a folder of its own.
PROTOCOLS := $(addprefix $(VENV)/protocols/,2.14.0 2.15.0 2.16.1 2.17.0)

$(VENV)/protocols/%: | $(VENV)/tested
	rm -rf $@.part
	$(PIP) --no-deps --target $@.part kfp-pipeline-spec==$* kfp-kubernetes==$*
	mv $@.part $@

# Classes made from the APIs of Kubeflow Trainer, before and since `runtimePatches`, and of the Argo Workflows that
# these versions of KFP bring (tests/manifests/apis.py).
APIS := $(addprefix $(VENV)/apis/,$(addprefix kubeflow-trainer-api@,2.1.0 2.2.0 2.3.0) $\
	$(addprefix hera@,5.25.1 5.27.0 7.0.0))

$(VENV)/apis/%: | $(VENV)/tested
	rm -rf $@.part
	$(PIP) --no-deps --target $@.part $(subst @,==,$*)
	mv $@.part $@

lint: setup $(PROTOCOLS) $(APIS)
	$(BIN)/ruff check src pipelines components images tests benchmarks
	$(BIN)/ruff format --check src pipelines components images tests benchmarks
	$(BIN)/pyright
	$(BIN)/python -m tests.pipelines.kubeflow.protocols $(PROTOCOLS)
	$(BIN)/python -m tests.manifests.apis $(APIS)
	$(BIN)/python -m pytest $(addprefix tests/manifests/test_,overlays.py rules.py namespaces.py pod_security.py)
	@command -v kustomize >/dev/null || command -v kubectl >/dev/null || echo "manifests/ was not built, \
	only what is kept of it was checked: neither kustomize nor kubectl is on the PATH" >&2
	$(BIN)/hadolint images/*/Dockerfile
	$(BIN)/python images/audit.py

format: setup
	$(BIN)/ruff check --fix src pipelines components images tests benchmarks
	$(BIN)/ruff format src pipelines components images tests benchmarks

# What is written from the code; a test says when it is out of date.
docs: setup
	$(BIN)/python -m tests.docs.test_configuration_page > docs/configuration.md

# What tests hold: defaults, outputs, the objects of manifests. Look at the difference before committing it.
golden: setup
	$(BIN)/python -m tests.config.test_config
	$(BIN)/python -m tests.pipelines.test_outputs
	$(BIN)/python -m tests.fixtures.overlays

# Container images (docs/images.md), by docker or buildah: of BASE if one is named, with BUILD's further options.
ENGINE ?= docker
TAG ?= python3.11
VERSION := $(shell sed -n 's/^VERSION = "\(.*\)"/\1/p' src/multiview/names.py)
REVISION = $(shell git describe --always --dirty --abbrev=40 --exclude '*')
# Labels are given here: buildah 1.28 takes one that names a build argument from its cache, whatever the argument.
OCI := org.opencontainers.image

images: image-cpu image-gpu image-runner

image-%:
	$(ENGINE) build --file images/$*/Dockerfile --tag $(REGISTRY)multiview-$*:$(TAG) \
		$(if $(BASE),--build-arg BASE=$(BASE)) --build-arg REVISION=$(REVISION) \
		$(if $(SOURCE),--label $(OCI).source=$(SOURCE)) --label $(OCI).revision=$(REVISION) \
		--label $(OCI).version=$(VERSION) $(BUILD) .

# What images install, for builds that reach no package index: BUILD='--build-arg PIP_NO_INDEX=1'.
wheels: setup
	$(BIN)/python images/packages.py wheels

# What is installed into the images, by version and hash, from pyproject.toml and constraints.txt. LOCK takes options of
# `uv pip compile`, as in LOCK=--upgrade. TORCH_LINKS is where the build of torch without CUDA is.
TOOLS := $(VENV)/tools
TORCH_LINKS ?= https://download.pytorch.org/whl/cpu/torch/

$(TOOLS)/ready: images/tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install -qq --requirement images/tools.txt
	touch $@

lock: setup $(TOOLS)/ready
	PATH="$(CURDIR)/$(TOOLS)/bin:$$PATH" $(BIN)/python images/packages.py lock --find-links=$(TORCH_LINKS) $(LOCK)

# The images' bills of materials in CycloneDX's format, from the locks.
sbom: $(addprefix dist/sbom/,$(addsuffix .cdx.json,cpu gpu runner))

dist/sbom/%.cdx.json: images/%/requirements.lock images/build.lock images/steps.lock $(TOOLS)/ready
	mkdir -p $(@D)
	cat $< images/build.lock $(if $(filter-out runner,$*),images/steps.lock) \
		| $(TOOLS)/bin/cyclonedx-py requirements --output-reproducible --output-file $@ -

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info
