# Two commands do everything on a fresh machine with Python 3.11+ and make:
#   make build PROFILE=nemotron-ada      make test
# Each makes its own environment in .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROFILE ?=
SPECS ?=
JOBS ?= auto
# Tests of whole programs wait more than they work.
LIVING_JOBS ?= 3
SOAK_SECONDS ?= 1800
podwright = $(BIN)/podwright
options = $(if $(SPECS),--specs $(SPECS))
real := real_engine or real_docker or linters or runpod_schema or real_client or real_sdk or desktop
fast := not bench and not living and not ($(real))

.DEFAULT_GOAL := help
.PHONY: help build build-all plan lint image local lock deploy status stop terminate connect publish rollback journal secrets stock test test-living check check-real docs golden schemas bench fuzz soak faults clean

help: ## Show the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(VENV)/.runtime: compiler/locks/runtime.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("podwright needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Say PYTHON=/path/to/python3.") if sys.version_info < (3, 11) else None'
	@echo "Making the environment in $(VENV) (once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r compiler/locks/runtime.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q compiler images/runtime/pod
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime compiler/locks/dev.txt
	@echo "Adding what tests need ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r compiler/locks/dev.txt
	@touch $@

build: $(VENV)/.runtime ## Validate, plan and compile PROFILE into build/PROFILE.
	@$(podwright) build $(options) $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name; `make list` shows the names))

build-all: $(VENV)/.runtime ## Compile every profile.
	@$(podwright) build $(options) --all

list: $(VENV)/.runtime ## List the profiles.
	@$(podwright) list $(options)

plan: $(VENV)/.runtime ## Show what is decided for PROFILE.
	@$(podwright) plan $(options) $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name; `make list` shows the names))

lint: $(VENV)/.runtime ## Check PROFILE, or all specs.
	@$(podwright) lint $(options) $(PROFILE)

image: $(VENV)/.runtime ## Build PROFILE's container image with a Docker engine.
	@$(podwright) image $(options) $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name; `make list` shows the names))

local: $(VENV)/.runtime ## Serve PROFILE (tiny-cpu) on this machine until Ctrl-C; DOCKER=1 in a container.
	@$(podwright) local $(options) $(if $(DOCKER),--docker) $(if $(NETWORK),--network $(NETWORK)) $(if $(PORT),--port $(PORT)) $(or $(PROFILE),tiny-cpu)

lock: $(VENV)/.runtime ## Resolve commits, digests and sizes of PROFILE.
	@$(podwright) lock $(options) $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name; `make list` shows the names))

deploy: $(VENV)/.runtime ## Rent a pod for PROFILE and prove that it serves; asks before it spends.
	@$(podwright) deploy $(options) $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name; `make list` shows the names))

status: $(VENV)/.runtime ## Show pods, PROFILE's or all.
	@$(podwright) status $(PROFILE)

stop: $(VENV)/.runtime ## Stop PROFILE's pod; its GPU is no longer billed.
	@$(podwright) stop $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name))

connect: $(VENV)/.runtime ## Start Claude Code on PROFILE's pod.
	@$(podwright) connect $(options) $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name)) --launch

terminate: $(VENV)/.runtime ## End PROFILE's pod for good.
	@$(podwright) terminate $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name))

publish: $(VENV)/.runtime ## Give PROFILE's running pods its new revision; shows what each will do, and asks.
	@$(podwright) publish $(options) $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name))

rollback: $(VENV)/.runtime ## Publish PROFILE's last good revision again.
	@$(podwright) rollback $(options) $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name))

journal: $(VENV)/.runtime ## Show what PROFILE's pod mirrored of its journal.
	@$(podwright) journal $(options) $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name))

secrets: $(VENV)/.runtime ## Show which secrets PROFILE needs and whether the provider has them.
	@$(podwright) secrets $(options) --check $(if $(PROFILE),$(PROFILE),$(error say PROFILE=name))

stock: $(VENV)/.runtime ## Show cards with price and stock, PROFILE's or all.
	@$(podwright) stock $(options) $(PROFILE)

test: $(VENV)/.dev ## Run the fast tests.
	@$(BIN)/python -m pytest -n $(JOBS) -m "$(fast)"

test-living: $(VENV)/.dev ## Run the tests that start whole programs (runtimes, bridges, deploys) and ask a Hub: minutes, and nothing from outside.
	@$(BIN)/python -m pytest -n $(LIVING_JOBS) -m living

check: $(VENV)/.dev ## Lint, types, import contracts, generated pages.
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@PYTHONPATH=.:images/runtime $(BIN)/lint-imports
	@$(podwright) docs --check
	@$(podwright) schema --check

check-real: $(VENV)/.dev build-all ## Check bundles and the runtime with real parts: engine, Docker, linters, RunPod's schema, clients; REAL=paths for some.
	@$(BIN)/python -m pytest -v -rs -p no:xdist -m "$(real)" $(REAL)

docs: $(VENV)/.runtime ## Write the generated pages and schemas.
	@$(podwright) docs
	@$(podwright) schema

golden: $(VENV)/.dev ## Rewrite the golden bundles; review the diff.
	@$(BIN)/python -m tests.golden.rewrite

bench: $(VENV)/.dev ## Time whole commands and write docs/benchmarks.md's figures.
	@$(BIN)/python -m tests.bench.run
	@$(BIN)/python -m tests.bench.runtime all --page

fuzz: $(VENV)/.dev ## A longer campaign of the property tests.
	@HYPOTHESIS_PROFILE=campaign $(BIN)/python -m pytest -n $(JOBS) -m "$(fast)" -k "property or hypothesis or fuzz" tests

soak: $(VENV)/.dev ## Load a bridge with 64 clients of all kinds for SOAK_SECONDS, and break 10,000 streams off; nothing may be left.
	@$(BIN)/python -m tests.bench.bridge soak --seconds $(SOAK_SECONDS)
	@$(BIN)/python -m tests.bench.bridge aborts

faults: $(VENV)/.dev ## Do every fault to living pods and write the table of docs/reliability.md; ONLY=pattern for some, NO_PAGE=1 leaves the page.
	@$(podwright) build tiny-cpu >/dev/null
	@PYTHONPATH=.:images/runtime $(BIN)/python -m tests.faults $(if $(ONLY),--only '$(ONLY)') $(if $(NO_PAGE),--no-page)

clean: ## Remove bundles and the environment.
	rm -rf build $(VENV)
