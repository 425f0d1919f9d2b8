# Everything starts from python3.11 (or newer), make and a package index; `make` lists the targets.

UV_VERSION := 0.13.8
STAMP      := .venv/.synced
BIN        := .venv/bin
WITH_JAVA  := JAVA_HOME="$$(bash scripts/java.sh)" && export JAVA_HOME &&
# The tests' own cache folder: their JVMs take Spark's classes out of an archive in it.
CLASSES    := build/cache/.warm
QUICK      := SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ARGS       ?=
BASE       ?= main
VERSION    ?= 4.2.1
# What shows whether another Spark does what muntin builds on.
ON_SPARK   ?= tests/contract/test_sink.py $(addprefix tests/spark/test_,lakes.py batch.py restart.py join_windows.py chains.py agents.py open_state.py zones.py)

export UV_VERSION
# Without caches of bytecode, each program of the tests compiles some two thousand modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup classes demo windowing test test-near test-long spark test-spark services check search simulate audit build bench docs pages format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with everything that the other targets need

$(STAMP): pyproject.toml uv.lock Makefile scripts/setup.sh
	@bash scripts/setup.sh
	@touch $@

classes: $(CLASSES) ## archive Spark's classes, with which the tests' sessions take half the CPU to start

# Without an archive, the tests are slower and the same.
$(CLASSES): $(STAMP)
	@mkdir -p $(@D)
	@$(WITH_JAVA) $(QUICK) XDG_CACHE_HOME="$(CURDIR)/$(@D)" $(BIN)/muntin warm || echo "make: the tests' sessions start without an archive of classes" >&2
	@touch $@

demo: $(STAMP) ## watch windows over a year of flights
	@$(WITH_JAVA) $(BIN)/python -m examples.flights $(ARGS)

windowing: $(STAMP) ## prune a table while it grows (ARGS='--maxrows=100000 --historyseconds=0')
	@$(BIN)/python -m examples.windowing $(ARGS)

test: $(STAMP) $(CLASSES) ## run the tests (ARGS='-k name' narrows them)
	@$(WITH_JAVA) $(BIN)/python -m pytest -n 2 $(ARGS)

test-near: $(STAMP) $(CLASSES) ## run the tests of what differs from main (BASE=... for another branch)
	@$(WITH_JAVA) $(BIN)/python scripts/select_tests.py $(BASE) | xargs -r $(BIN)/python -m pytest -n 2 $(ARGS)

test-long: $(STAMP) ## run the tests that take minutes each, which CI leaves out
	@$(MAKE) test ARGS='-m long'

spark: $(STAMP) ## install another Spark for test-spark
	@$(WITH_JAVA) bash scripts/spark.sh $(VERSION)

test-spark: spark ## run what touches Spark on another one of scripts/sparks (VERSION=4.2.1)
	@$(WITH_JAVA) .venv-$(VERSION)/bin/python -m pytest -n 0 -m "" $(ON_SPARK) $(ARGS)

services: ## install the servers that tests start: PostgreSQL, Kafka
	@bash scripts/services.sh

check: $(STAMP) ## lint, format, types, import contracts, sizes, words
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_sizes.py
	$(BIN)/python scripts/check_words.py

search: $(STAMP) ## look for queries on which two runners differ (ARGS=--minutes=30)
	@$(WITH_JAVA) $(BIN)/python -m tests.search $(ARGS)

simulate: $(STAMP) ## run queries on simulated machines that fail (ARGS='--minutes=30', or '--only --seed=N')
	@POLARS_MAX_THREADS=1 $(BIN)/python -m tests.simulation $(ARGS)

audit: $(STAMP) ## hold the pinned dependencies against the vulnerability database
	@mkdir -p build && bash scripts/audit.sh $(ARGS)

build: $(STAMP) ## build the wheel, the sdist and their bill of materials into dist
	@bash scripts/build.sh

bench: $(STAMP) ## measure against the peers (ARGS=... goes to benches)
	@$(WITH_JAVA) $(BIN)/python -m benches $(ARGS)

docs: $(STAMP) ## build the documentation into build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict && echo build/site/index.html

pages: $(STAMP) ## write the pages that follow from the code: SQL's functions, all options, files in TOML
	@$(BIN)/python -m tests.docs.functions && $(BIN)/python -m tests.options.listing
	@$(BIN)/muntin schema > docs/pipeline.schema.json

format: $(STAMP) ## fix what ruff can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## remove .venv and everything else that was generated
	rm -rf .venv .venv-* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf artifacts spark-warehouse metastore_db derby.log
	find src tests scripts benches examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
