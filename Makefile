# Everything a developer runs. Each target sets up what it needs in .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# pip compiles 16,000 files one after another: instead all cores compile those that are imported.
SPARED := /(tests?|testing|networkx|pip|setuptools|fontTools|lexers)/|numpy/distutils/
SPARED := $(SPARED)|transformers/(cli|exporters|pipelines)/|transformers/models/(?!auto|qwen2)
SPARED := $(SPARED)|ray/(air|autoscaler|dashboard|data|llm|rllib|serve|train|tune)/
SPARED := $(SPARED)|scipy/(integrate|interpolate|io|ndimage|signal|stats)/
SPARED := $(SPARED)|sympy/(combinatorics|parsing|physics|stats)/|torch/(_inductor|_vendor)/
COMPILE := $(BIN)/python -m compileall -q -j 0 -x '$(SPARED)' $(VENV)/lib

DEVICE ?= cuda
.PHONY: help demo test test-fast test-gpu test-vllm lint soak bench validity miniature clean

help:  ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: $(VENV)/.core  ## Run the embedded miniature: a true validation in minutes, no GPU.
	$(BIN)/bon demo

# A process has one Ray: the tests of the service, and the one that stops a whole cluster, have
# processes of their own.
test: $(VENV)/.dev  ## Run every test (without vLLM).
	$(BIN)/python -m pytest --ignore tests/service --ignore tests/vllm
	$(BIN)/python -m pytest tests/service --ignore tests/service/test_nodes.py
	$(BIN)/python -m pytest tests/service/test_nodes.py

test-fast: $(VENV)/.dev  ## Run the tests that need no model, no Ray and no browser.
	$(BIN)/python -m pytest -m "not model and not ray and not slow and not browser"

test-gpu: $(VENV)/.dev  ## On a GPU: every architecture, then vLLM and all kinds; writes build/gpu.md (DEVICE=cpu).
	$(BIN)/python tests/bench/bench_gpu.py --device $(DEVICE) --check
	BON_TEST_DEVICE=$(DEVICE) $(BIN)/python -m pytest tests/engines/test_architectures.py
	$(BIN)/python tests/bench/bench_gpu.py --device $(DEVICE) --out build/gpu.md

test-vllm: $(VENV)/.dev  ## Run real vLLM on the CPU in an environment of its own.
	sh tests/vllm/run.sh

lint: $(VENV)/.dev  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

soak: $(VENV)/.dev  ## Kill, stop, starve and change runs for MINUTES=15 (HOURS=8); all must come out as if not.
	$(BIN)/python tests/soak/soak.py --minutes $(or $(MINUTES),15) --hours $(or $(HOURS),0)

bench: $(VENV)/.dev  ## Measure everything side by side; writes build/bench.md (QUICK=1, ONLY="rows chain", DEMO=RUN).
	$(BIN)/python tests/bench $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(DEMO),--demo $(DEMO))

validity: $(VENV)/.dev  ## Check by simulation that the intervals cover what they should.
	$(BIN)/python -m bon.analysis.validity

miniature: $(VENV)/.dev  ## Train the miniature's models again from their seeds (under an hour).
	$(BIN)/python -m bon.miniature.training.train --out build/checkpoints

clean:  ## Remove the environment and what was built.
	rm -rf $(VENV) build

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.core: $(VENV)/.python pyproject.toml constraints.txt
	$(PIP) -e '.[transformers]'
	-$(COMPILE)
	touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	-$(COMPILE)
	touch $@ $(VENV)/.core
