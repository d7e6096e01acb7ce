# Everything a developer does. Needs make, git and Python 3.11 or newer; all else is set up below this folder.

.DEFAULT_GOAL := help
.PHONY: help setup dist run demo test test-parallel test-serial test-install test-of quick check documents assets screenshots test-containers bench contracts clean FORCE

DATA ?= data
HTTP_PORT ?= 8080
WORKERS ?= 4
BENCHMARKS ?= request_lane tool_search knowledge_search standalone_footprint embedder_batching sandbox

BIN := .venv/bin
UV_VERSION := 0.13.9
MINIMUM := 3.11

# Another environment that is active here is not the one that is set up.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH

# Compiled modules are kept: without them each process compiles everything that it imports, for seconds.
unexport PYTHONDONTWRITEBYTECODE

# Certificates are those of the system, which may know a company's own; uv would bring others.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
export UV_SYSTEM_CERTS ?= 1
endif

# Without a home that can be written to, caches lie in this folder.
ifneq ($(shell test -n "$$HOME" && test -d "$$HOME" && test -w "$$HOME" && echo usable),usable)
export HOME := $(CURDIR)/.uv/home
export UV_CACHE_DIR := $(CURDIR)/.uv/cache
export npm_config_cache := $(CURDIR)/.uv/npm
endif

# Packages of all distributions, for mypy: `skillbus` alone would be the first of them that it finds.
PACKAGES := $(sort $(subst /,.,$(subst src/,,$(wildcard src/skillbus/*))) \
	$(foreach path,$(wildcard libs/*/src/skillbus/* services/*/src/skillbus/*),skillbus.$(notdir $(path))))

# Tests that are not annotated as strictly as the rest; it should become shorter.
UNTYPED_TESTS := ^tests/(containers|(unit|integration)/(vectors|gateway|indexer)|unit/(embedder|examples)|integration/retriever|e2e/test_nats_crash)

# Half of the abuse suite waits for payloads to end. Workers tell traces apart by the users of their runs, which only
# root may choose.
ABUSE_WORKERS := $(shell test "$$(id -u)" = 0 && echo 3 || echo 0)

# Test files with tests of a mark: collecting all tests takes a quarter of a minute.
files_marked = $(sort $(shell grep -rl 'mark\.$(1)' tests --include='test_*.py'))

# Python as the caller names it, or that of .venv, or the newest of the common names that is new enough.
define find_python
is_new() { "$$1" -c 'import sys; sys.exit(sys.version_info < tuple(map(int, "$(MINIMUM)".split("."))))' 2>/dev/null; }; \
python='$(PYTHON)'; \
if [ -n "$$python" ]; then \
	is_new "$$python" || { echo "PYTHON=$$python is not Python $(MINIMUM) or newer: name one that is" >&2; exit 1; }; \
else \
	for python in $(BIN)/python python3 python3.13 python3.12 python3.11 ''; do is_new "$$python" && break; done; \
	[ -n "$$python" ] || { echo "Python $(MINIMUM) or newer is needed: install it (Debian 12: apt-get install python3), or name one: make PYTHON=/path/to/python3" >&2; exit 1; }; \
fi
endef

# uv from PATH if it works, else one of our own in .uv.
define find_uv
if uv --version >/dev/null 2>&1; then uv=uv; else uv=.uv/bin/uv; fi; \
if [ $$uv = .uv/bin/uv ] && ! $$uv --version >/dev/null 2>&1; then \
	base=$$("$$python" -c 'import sys; print(getattr(sys, "_base_executable", None) or sys.executable)'); \
	if ! "$$base" -c 'import ensurepip, venv' 2>/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo 'Installing python3-venv with apt-get'; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null || exit 1; \
		fi; \
		"$$base" -c 'import ensurepip, venv' 2>/dev/null || { \
			echo "$$base cannot make environments. Install its venv module (Debian: sudo apt-get install python3-venv), or install uv and put it on PATH; then run make again." >&2; exit 1; }; \
	fi; \
	echo 'Setting up uv $(UV_VERSION) in .uv'; \
	"$$base" -m venv .uv && .uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION) || exit 1; \
fi
endef

help: ## List what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@echo '  Variables: PYTHON (3.11 or newer), DATA, HTTP_PORT; make bench BENCHMARKS="request_lane"; WORKERS (4)'

setup: ## Install everything into .venv
	@mkdir -p "$$HOME"; $(find_python); $(find_uv); \
	UV_PYTHON_DOWNLOADS=never $$uv sync --locked --quiet --python "$$python"

dist: setup ## Build a wheel of every distribution into dist, and say what each way of installing downloads
	@rm -rf dist && $(BIN)/uv build --all-packages --wheel --quiet --out-dir dist && rm -f dist/.gitignore
	@$(BIN)/python benchmarks/install_size.py --downloads

test-install: setup ## Install the command from this checkout as a user's tool, in a temporary folder, and run it; asks the package index
	@place=$$(mktemp -d) && trap 'rm -rf "$$place"' EXIT && export UV_TOOL_DIR="$$place/tools" UV_TOOL_BIN_DIR="$$place/bin" && \
	$(BIN)/uv tool install --quiet . && "$$place/bin/skillbus" --version

run: setup ## Start everything, play the demo, and stay up on http://127.0.0.1:8080
	@exec $(BIN)/skillbus demo --stay --data $(DATA) --http-port $(HTTP_PORT)

demo: setup ## The same in a temporary folder, and stop; fails if any step failed
	@exec $(BIN)/skillbus demo

check: setup ## Format, lint, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache .
	$(BIN)/mypy $(PACKAGES:%=-p %)
	$(BIN)/mypy tests --exclude '$(UNTYPED_TESTS)'
	$(BIN)/lint-imports --no-logo

test: test-parallel test-serial ## Run each test once that needs no containers

test-parallel: setup ## Those tests that may run beside others
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'not containers and not serial'

test-serial: setup ## The abuse suite, then the tests that nothing else may run beside
	$(BIN)/pytest -q -n $(ABUSE_WORKERS) --dist worksteal -m serial tests/abuse
	$(BIN)/pytest -q -m 'serial and not containers' $(filter-out tests/abuse/%,$(call files_marked,serial))

test-of: setup ## Unit and integration tests of one service or library: make test-of S=learner
	@test -n "$(S)" || { echo 'Name a service or a library: make test-of S=learner' >&2; exit 1; }
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(wildcard tests/unit/$(S) tests/integration/$(S) tests/integration/$(S)_*)

quick: setup ## Lint and the fastest tests, in at most 30 seconds
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/architecture tests/unit/common tests/unit/learner tests/unit/retriever

test-containers: setup ## The tests that need Docker or Podman
	$(BIN)/pytest -m containers $(call files_marked,containers)

bench: setup ## Run the benchmarks; results go to benchmarks/results
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

documents: setup ## Make the generated documents again: contracts, AsyncAPI, schema snapshots, traceability, the client's reference
	$(BIN)/python -m skillbus.contracts.documents
	$(BIN)/python tests/architecture/traceability.py
	$(BIN)/python tests/architecture/client_reference.py
	$(BIN)/python services/gateway/pack_examples.py

contracts: documents

assets: setup ## Fetch the files of npm packages that the pages use, and check them (needs npm)
	$(BIN)/python services/gateway/vendor_assets.py

screenshots: setup ## Take a picture of every page with the examples, into build/screenshots (needs Chromium)
	$(BIN)/python -m tests.browser.take_screenshots

clean: ## Remove environments and caches; data stays
	rm -rf .venv .uv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build
	find src libs services tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
