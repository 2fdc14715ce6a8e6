# Every word sets up what it needs on a machine with only Python >= 3.11 and make; a second call starts at once.
.PHONY: help run test test-full faults check format bench docs lock clean
.DEFAULT_GOAL := help

PYTHON_IN := .venv/bin/python
READY := .venv/.ready
BUILT_FROM := pyproject.toml requirements.lock scripts/uv.lock scripts/environment.sh
PYTEST := $(PYTHON_IN) -m pytest

help: ## what the words do
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null || grep '##' $(MAKEFILE_LIST)

$(READY): $(BUILT_FROM)
	@sh scripts/environment.sh

run: $(READY) ## a sample fleet through the whole path, on local Spark and SQLite: watched, then checked (STAY=1: then its pages)
	@.venv/bin/batchline demo --out build/demo $(if $(STAY),--stay)

test: $(READY) ## all tests, on real servers that are installed if need be
	@sh scripts/servers.sh
	@$(PYTEST) --numprocesses 2 --dist worksteal

test-full: $(READY) ## the same at full size: ten times as many generated cases, longer streams, more kills
	@sh scripts/servers.sh
	@BATCHLINE_TEST_PROFILE=full $(PYTEST) --numprocesses 2 --dist worksteal

faults: $(READY) ## the path on real servers while its parts are killed, frozen, cut off, filled and skewed (N=200 faults, SEED=1)
	@sh scripts/servers.sh
	@$(PYTHON_IN) -m tests.faults --faults $(or $(N),200) --seed $(or $(SEED),1)

check: $(READY) ## lint, format, types, layers
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

format: $(READY) ## put the code into its one form
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

bench: $(READY) ## every speed, beside a baseline in the same run (ROWS=100000 for a quick look)
	@sh scripts/servers.sh
	@$(PYTHON_IN) -m tests.benchmarks

docs: $(READY) ## the documentation as a site in build/site
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet && echo "docs: build/site/index.html"

lock: $(READY) ## the newest versions that fit into the lock files; no registry's address
	@.venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    --all-extras --group dev --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml
	@echo uv | .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    --custom-compile-command "make lock" --output-file scripts/uv.lock -

clean: ## leave only what git knows
	rm -rf .venv build
