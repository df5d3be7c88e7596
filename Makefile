# Each target makes .venv and finds a browser first, if need be; `make help` lists them.
#
#   SEEDS    a file of URLs, or a URL; without it the built-in example site is captured
#   STORE    where the captured pages go
#   ARGS     further arguments for the command that the target runs
#   RECORDED folders of recorded pages, on which `make bench` measures the core instead of capturing any
#   PYTHON   the interpreter to build .venv on

STORE ?= ./store
# Recipes read these from the environment, so that no character of a URL or a path means anything to the shell.
export SEEDS STORE PYTHON

BIN := .venv/bin
# The browser that infra/bootstrap.sh has seen starting, unless another one is configured.
WITH_BROWSER := PAGESTATE_BROWSER="$${PAGESTATE_BROWSER:-$$(cat .venv/browser)}"

# The compiled hot path, where `make compiled` has built it of these sources.
COMPILED = $(shell infra/compiled.sh check 2>/dev/null && echo PYTHONPATH="$(CURDIR)/.cache/compiled")

.DEFAULT_GOAL := help
.PHONY: help crawl test fix check bench bench-plan bench-open bench-fleet bench-engines bench-lost compiled chaos simulate faults soak idle oracle differential lock clean ready ready-python

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name what; do printf '  make %-12s %s\n' "$$name" "$$what"; done

crawl: ready ## capture the example site, or SEEDS=urls.txt, into STORE=./store
	@if [ -n "$$SEEDS" ]; then set -- "$$SEEDS"; else set -- --example; fi; \
	$(COMPILED) $(WITH_BROWSER) $(BIN)/pagestate crawl "$$@" --store "$$STORE" $(ARGS)

test: ready ## run every test, those in a real browser included
	@$(WITH_BROWSER) $(BIN)/python -m pytest $(ARGS)

fix: ready-python ## mend what ruff can mend, and format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

check: ready-python ## lint, format, types, the three floors, the length of modules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python infra/module_lines.py

bench: ready ## measure what a page costs, its guard and its outline, and the core against its peers
	@$(WITH_BROWSER) $(BIN)/python tests/bench/bench.py $(ARGS)
	@$(WITH_BROWSER) $(BIN)/python tests/bench/guard.py $(ARGS)
	@$(COMPILED) $(WITH_BROWSER) $(BIN)/python tests/bench/core.py $(RECORDED)
	@$(WITH_BROWSER) $(BIN)/python tests/bench/outline_share.py $(ARGS)
	@$(WITH_BROWSER) $(BIN)/python tests/bench/outline.py

faults: ready ## run every fault of the fault site that PAGESTATE_SHARED holds: ARGS="oom pdf" for some of them
	@$(WITH_BROWSER) $(BIN)/python tests/faults/run.py $(ARGS)

soak: ready ## crawl N=2000 pages, every fifth a fault, and look at what is left behind
	@$(WITH_BROWSER) $(BIN)/python tests/soak/run.py $(or $(N),2000)

chaos: ready ## crawl on workers while everything is killed: ARGS="--pages 2000 --disturbances 120 --seed 1"
	@$(WITH_BROWSER) $(BIN)/python tests/chaos/run.py $(ARGS)

simulate: ready-python ## a fleet in simulated time: ARGS="--pages 10000000 --workers 1000 --seed 1"
	@$(BIN)/python tests/simulate/run.py $(ARGS)

idle: ready ## measure what a worker takes that has nothing to do (needs redis-server)
	@$(WITH_BROWSER) $(BIN)/python tests/bench/idle.py $(ARGS)

compiled: ready-python ## compile the hot path into .cache/compiled, which crawl and bench then use
	@infra/compiled.sh

bench-plan: ready-python ## measure the plan of N=1000000 URLs
	@$(BIN)/python tests/bench/plan.py $(or $(N),1000000)

bench-open: ready-python ## measure how long a reader takes to open a crawl of N=10000 pages from its markers
	@$(BIN)/python tests/bench/opening.py $(or $(N),10000)

bench-fleet: ready-python ## measure how throughput grows from 1 to 16 workers whose captures are a sleep (needs redis-server)
	@$(BIN)/python tests/bench/fleet.py $(ARGS)

bench-engines: ready ## measure what a page costs on a worker with Redis and S3, against the local engine
	@$(WITH_BROWSER) $(BIN)/python tests/bench/engines.py $(ARGS)

bench-lost: ready ## measure how soon a killed worker's batch is at work again (needs redis-server, rabbitmq-server)
	@$(WITH_BROWSER) $(BIN)/python tests/bench/lost_worker.py $(ARGS)

# A stamp is written last and holds what it vouches for, so that an interrupted run starts over.
ORACLE := .cache/oracle
STAGEHAND := .cache/oracle-stagehand
STAGEHAND_LOCK := tests/oracle/stagehand
oracle: ready-python ## set up the real browser-use and the real Stagehand beside, for the tests that compare with them
	@cmp -s requirements-oracle.lock $(ORACLE)/stamp || { \
		rm -rf $(ORACLE) && $(BIN)/python -m venv $(ORACLE) && \
		$(ORACLE)/bin/python -m pip install -q --disable-pip-version-check --no-input --require-hashes --no-deps -r requirements-oracle.lock && \
		cp requirements-oracle.lock $(ORACLE)/stamp; }
	@if ! command -v npm >/dev/null; then echo "No npm: the outline is not compared with the real Stagehand; install Node.js 20 or newer."; \
	else cmp -s $(STAGEHAND_LOCK)/package-lock.json $(STAGEHAND)/stamp || { \
		rm -rf $(STAGEHAND) && mkdir -p $(STAGEHAND) && cp $(STAGEHAND_LOCK)/package*.json $(STAGEHAND)/ && \
		(cd $(STAGEHAND) && npm ci --silent --ignore-scripts --no-audit --no-fund --no-update-notifier) && \
		cp $(STAGEHAND)/package-lock.json $(STAGEHAND)/stamp; }; fi

differential: ready oracle ## compare with the real browser-use and the real Stagehand: ARGS="--fuzz 300 --corpus"
	@$(WITH_BROWSER) $(BIN)/python tests/oracle/differential.py $(ARGS); listing=$$?; \
	$(WITH_BROWSER) $(BIN)/python tests/oracle/outline_differential.py $(ARGS) && exit $$listing

lock: ready-python ## resolve the dependencies again and write the lock files, those of the oracles too
	@command -v uv >/dev/null || [ -x $(BIN)/uv ] || $(BIN)/python -m pip install -q --disable-pip-version-check uv
	@PATH="$(CURDIR)/$(BIN):$$PATH" uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
		--no-annotate --group dev pyproject.toml -o requirements.lock
	@echo browser-use==0.13.14 | PATH="$(CURDIR)/$(BIN):$$PATH" uv pip compile -q --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --no-strip-extras - -o requirements-oracle.lock
	@cd $(STAGEHAND_LOCK) && npm install --silent --package-lock-only --ignore-scripts --no-audit --no-fund --no-update-notifier

clean: ## remove .venv, caches and built files; the store stays
	@rm -rf .venv .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

ready:
	@infra/bootstrap.sh

ready-python:
	@infra/bootstrap.sh python
