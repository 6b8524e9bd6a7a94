# Two commands matter: `make run` and `make test`. Both do all their own set-up.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
ARGS ?=
# Trust what the machine trusts: many networks have certificates of their own.
export UV_SYSTEM_CERTS := 1
export UV_NATIVE_TLS := 1

.PHONY: help setup run test dist image lint format lock bench soak soak-projects docs reference screenshots translations clean components

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(VENV)/.installed $(VENV)/.assets ## Create .venv with everything in it, and the dashboard's assets

$(VENV)/.installed: pyproject.toml requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# Icons are taken from the names that templates use, so a new template may need a new sprite.
$(VENV)/.assets: assets/package-lock.json assets/build.py $(wildcard assets/*.js) $(shell find src/opilio/web/templates -name '*.html') | $(VENV)/.installed
	@$(BIN)/python assets/build.py
	@touch $@

run: setup ## Start Opilio with its demo (Ctrl-C stops it)
	@exec $(BIN)/opilio up $(ARGS)

components: setup ## Install the real servers that the tests use
	@bash tests/components/install.sh

test: setup components lint ## Everything: lint, types, import rules, tests against real servers
	@$(BIN)/python tests/run_all.py $(ARGS)

lint: setup ## Formatting, lint, types, import contracts
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy && $(BIN)/lint-imports --no-cache >/dev/null || { $(BIN)/lint-imports --no-cache; exit 1; }

dist: setup ## Build the source distribution and, from it, the wheel, into dist/
	@rm -rf dist && $(UV) build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist
	@ls dist

image: dist ## Build the container image `opilio` (BASE=… for another base; docker, podman or buildah)
	@builder=$$(command -v docker || command -v podman || command -v buildah) || { echo "make image needs docker, podman or buildah" >&2; exit 1; }; \
	format=; [ "$${builder##*/}" = docker ] || format="--format docker"; \
	exec $$builder build $$format $(if $(BASE),--build-arg BASE=$(BASE)) -f deploy/container/Containerfile -t opilio .

format: setup ## Format and fix what can be fixed
	@$(BIN)/ruff format --quiet . && $(BIN)/ruff check --fix --quiet .

lock: ## Renew requirements.lock from pyproject.toml
	@test -x $(UV) || { $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet uv; }
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --all-extras --group dev --group bench pyproject.toml bench/lock.in -o requirements.lock

bench: setup components ## Measure, as ratios in one run (BENCH=name for one of them)
	@$(BIN)/python -m bench $(BENCH)

soak: setup components ## Half an hour under random kills, then an audit (SOAK_MINUTES=5 for a shorter one)
	@$(BIN)/python -m tests.soak

soak-projects: setup components ## 50 keyword projects while crawlers and servers fail, then an audit (SOAK_PROJECTS=10 for fewer)
	@SOAK_PROJECTS=$(or $(SOAK_PROJECTS),50) $(BIN)/python -m pytest -q tests/collector/test_soak.py

screenshots: setup ## Every page of the dashboard in both themes, into screenshots/
	@$(BIN)/python -m pytest tests/dashboard/screenshots.py -q

translations: setup ## Add new texts of the dashboard to its catalogues
	@$(BIN)/python assets/translations.py

docs: setup ## Build the documentation site into site/
	@$(BIN)/python assets/mermaid.py
	@$(BIN)/zensical build --clean --strict

reference: setup ## Write the pages of docs/reference that are made from the program
	@mkdir -p docs/reference && $(BIN)/python -m opilio.cli.reference docs/reference && $(BIN)/python assets/monitoring.py

clean: ## Remove what was built
	@rm -rf $(VENV) dist build site assets/node_modules src/opilio/web/static/vendor .pytest_cache .mypy_cache .ruff_cache
