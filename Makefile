# The targets for developers and for continuous integration. `make` alone lists them.
#
# A target that needs the environment makes it first: `.venv` is installed from the lock files, again only when they
# change. Nothing is installed outside this directory, except Java if it is missing (scripts/ensure_java), and Chromium
# and Redis for the tests (scripts/ensure_chromium, scripts/ensure_redis). Kafka for the tests is fetched into .cache/
# (scripts/ensure_kafka).

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input
LOCKS  := requirements-build.lock requirements.lock

# Extra arguments for the command behind a target: make test ARGS="tests/unit -x"
ARGS   ?=
# How many processes run tests side by side, by file: those on Spark mostly wait for each other's processes.
PROCESSES ?= 3
# How many busy loops run beside the tests of `make stress`, and after how many seconds a test there counts as hanging.
LOOPS  ?= 8
PATIENCE ?= 3600
# In the order of the directories: tests on Spark come before the many short ones, which then fill the last minute evenly.
BY_FILE := --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

# Bytecode is kept, whatever the environment says: otherwise each process of a test compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=

# A stamp marks a step that succeeded; an interrupted step leaves none and runs again.
VENV_STAMP    := $(VENV)/.made
LOCK_STAMP    := $(VENV)/.locked
PACKAGE_STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List the targets
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "PYTHON=... selects the Python interpreter; ARGS=\"...\" passes extra arguments to the command."

.PHONY: demo
demo: install ## Run several NEXMark queries on one local cluster and check them against Spark SQL
	$(BIN)/stretto demo $(ARGS)

.PHONY: test
test: install chromium kafka redis ## Run all tests
	$(BIN)/python -m pytest $(BY_FILE) $(ARGS)

.PHONY: stress
stress: install chromium kafka redis ## Run all tests beside busy loops (LOOPS=8): none may depend on the machine's speed
	scripts/stress $(LOOPS) $(BIN)/python -m pytest $(BY_FILE) --timeout $(PATIENCE) $(ARGS)

.PHONY: install
install: java $(PACKAGE_STAMP) ## Make .venv with the stretto command, and install Java if it is missing

.PHONY: check
check: lint types rooms ## Run lint, types and rooms

.PHONY: lint
lint: $(PACKAGE_STAMP) ## Check for errors and unformatted code (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: $(PACKAGE_STAMP) ## Check the types of the package (mypy --strict)
	$(BIN)/mypy --strict src/stretto

.PHONY: rooms
rooms: $(PACKAGE_STAMP) ## Check the imports between rooms (import-linter, contracts in .importlinter)
	$(BIN)/lint-imports

.PHONY: format
format: $(PACKAGE_STAMP) ## Format the code and apply automatic fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: lock
lock: $(VENV_STAMP) ## Update the lock files from pyproject.toml; ARGS=--upgrade takes the newest versions
	scripts/lock $(BIN)/python $(ARGS)

.PHONY: clean
clean: ## Remove .venv, caches and files left by Spark
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: java
java:
	@scripts/ensure_java

.PHONY: chromium
chromium:
	@scripts/ensure_chromium

.PHONY: kafka
kafka:
	@scripts/ensure_kafka

.PHONY: redis
redis:
	@scripts/ensure_redis

$(VENV_STAMP):
	@scripts/make_venv $(PYTHON) $(VENV)
	@touch $@

# The build tools come first, so that packages published only as source (pyspark) are built with pinned tools too.
$(LOCK_STAMP): $(VENV_STAMP) $(LOCKS)
	@echo "Installing the locked dependencies into $(VENV) (PySpark alone is 450 MB; this takes some minutes)"
	$(PIP) install --quiet --require-hashes -r requirements-build.lock
	$(PIP) install --quiet --require-hashes --no-build-isolation --use-pep517 -r requirements.lock
	@touch $@

$(PACKAGE_STAMP): $(LOCK_STAMP) pyproject.toml
	$(PIP) install --quiet --no-build-isolation --no-deps --editable .
	@touch $@
