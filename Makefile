# Every target makes what it needs first. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON3 ?= python3
BIN := .venv/bin
SAM_BIN := $(CURDIR)/.local/envs/sam/bin
# `sam build` runs the python3.13 it finds on PATH.
SAM := PATH="$(SAM_BIN):$$PATH" SAM_CLI_TELEMETRY=0 $(SAM_BIN)/sam
SETUP := $(PYTHON3) scripts/setup.py
CODE := layers worker cli functions tests scripts bench
# what there is of it, so that a tree without one of them is checked all the same
CODE_HERE = $(wildcard $(CODE))

.PHONY: help setup demo test test-slow simulate mutations mutants coverage chaos chaos-faults check check-code check-template format lock build sam-local aws-smoke clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## make or update all environments (a fraction of a second when they are up to date)
	@$(SETUP)

demo: setup ## the whole system on this machine, on real input; ARGS='--seconds 90 --workers 3 --connections 200 --report FILE'
	@$(BIN)/python -m streamlease_cli.local.demo $(ARGS)

test: setup ## all tests but real processes' chaos, on two cores; ARGS='tests/core -k lease' for some of them
	@$(BIN)/python -m pytest -q -n 2 -m "not chaos" $(ARGS)

test-slow: setup ## the same while processes of theirs stand still for seconds, as on a machine with too much to do; ARGS as for test
	@$(BIN)/python -m tests.slow $(ARGS)

simulate: ## the deterministic simulator; SEEDS=500, BASE=first seed, MODE=connection|worker|changing
	@$(SETUP) main
	@$(BIN)/python -m tests.simulation.simulate --seeds $(or $(SEEDS),500) \
	    $(if $(BASE),--base $(BASE)) $(if $(MODE),--mode $(MODE)) $(ARGS)

mutations: ## break each rule of the protocol in turn, and see that the simulator notices; ARGS='M1 M2' for some
	@$(SETUP) main
	@$(BIN)/python -m tests.simulation.mutate $(ARGS)

mutants: ## change lease.py, plan.py, shares.py in each small way, and see that their own tests notice; about half an hour of a core
	@$(SETUP) mutants
	@.local/envs/mutants/bin/python scripts/mutants.py $(ARGS)

coverage: ## by branch, of the lease, the plan, the keeper and the supervisor, each by its own tests
	@$(SETUP) main
	@$(BIN)/coverage erase
	@$(BIN)/coverage run --source-pkgs=streamlease,streamlease_worker -m pytest -q tests/core/test_lease*.py tests/core/test_plan*.py \
	    tests/worker/test_keeper*.py tests/worker/test_supervisor*.py
	@$(BIN)/coverage report --precision=1 --fail-under=95 \
	    --include='*/streamlease/lease.py,*/streamlease/plan.py,*/keeper.py,*/supervisor.py'

chaos: ## real workers through real faults; FAULTS=200, SEED=of the plan (drawn), MODE=connection|worker (half each)
	@$(SETUP) main emulator sam
	@$(BIN)/python -m tests.chaos.chaos $(if $(FAULTS),--faults $(FAULTS)) \
	    $(if $(SEED),--seed $(SEED)) $(if $(MODE),--mode $(MODE)) $(ARGS)

chaos-faults: setup ## the faults for which the real process is what matters, one test each; some minutes
	@$(BIN)/python -m pytest -q tests/chaos -m chaos $(ARGS)

check: check-code check-template ## ruff, formatting, mypy, import contracts, template lint

check-code: ## only the code
	@$(SETUP) main
	@# all of them, whatever the first says: one run shows everything
	@failed=(); for tool in "ruff check" "ruff format --check" "mypy"; do \
	    echo "$$tool"; $(BIN)/$$tool $(CODE_HERE) || failed+=("$$tool"); \
	done; \
	$(BIN)/lint-imports --no-cache || failed+=(lint-imports); \
	if (( $${#failed[@]} )); then printf 'check: %s failed\n' "$${failed[@]}" >&2; exit 1; fi

check-template: ## only the template lint
	@if [[ -e template.yaml ]]; then \
	    $(SETUP) sam; \
	    echo "sam validate --lint"; $(SAM) validate --lint --template template.yaml --region eu-west-1; \
	    echo "cfn-lint template.yaml"; $(SAM_BIN)/cfn-lint --template template.yaml; \
	else \
	    echo "no template.yaml here, nothing to lint"; \
	fi

format: ## put the code into the house's format, and fix what ruff can fix
	@$(SETUP) main
	$(BIN)/ruff check --fix $(CODE_HERE)
	$(BIN)/ruff format $(CODE_HERE)

lock: ## renew requirements/*.txt, the layer's constraints and dynalite's lock; ARGS=--upgrade for newer versions
	@$(SETUP) lock $(ARGS)

build: ## sam build, into .aws-sam/
	@$(SETUP) sam
	$(SAM) build $(ARGS)

sam-local: ## each function over its events in Lambda's own container image, where a container engine answers
	@$(SETUP) main emulator sam
	@$(BIN)/python scripts/sam_local.py

aws-smoke: ## STACK=name: a short run against a stack that you deployed to AWS
	@if [[ -z "$(STACK)" ]]; then echo "aws-smoke: name the stack: make aws-smoke STACK=streamlease-dev" >&2; exit 2; fi
	@$(SETUP) main
	@$(BIN)/python -m streamlease_cli.aws_smoke --stack $(STACK) $(ARGS)

clean: ## remove everything that was made here: environments, builds, caches
	rm -rf .venv .local .aws-sam .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find $(CODE_HERE) -type d \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +
