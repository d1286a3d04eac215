# One command each; `make help` lists them. Everything made on this machine goes to .venv/ and .loglake/.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup jars wheel bundle demo quick coverage test test-long versions faults mutants ui lint bench pages browser-setup image-setup screenshots lock clean

export LOGLAKE_HOME ?= $(CURDIR)/.loglake
demo ui: export DAGSTER_HOME = $(LOGLAKE_HOME)/dagster

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 8

setup: .venv/installed ## .venv with the locked packages, `loglake` in it

.venv/installed: requirements.lock pyproject.toml deploy/setup.sh
	@deploy/setup.sh

jars: setup
	@.venv/bin/python -m spark_jobs.engine.jars >/dev/null
	@.venv/bin/python -m spark_jobs.engine.class_archive

wheel: setup ## dist/loglake-*.whl, for `pip install` without this folder; see docs/deploy.md
	.venv/bin/python -m hatchling build -t wheel

bundle: ## dist/bundle: all that an installation without a network needs; see docs/deploy.md
	deploy/bundle.sh dist/bundle

demo: setup jars ## the bundled samples become tables, through Dagster
	@.venv/bin/loglake demo

quick: setup ## ruff and the fast unit tests, while you edit: about 4 minutes of two cores
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/python -m pytest -q -n 2 -m "not slow" tests/unit tests/repository/test_reference_pages.py

coverage: setup ## lines of the product that the tests of `make quick` run; they take twice as long
	.venv/bin/coverage run -m pytest -q -m "not slow" tests/unit tests/repository/test_reference_pages.py
	.venv/bin/coverage report --skip-covered --sort=cover

# programs that tests start would compile our modules each time
test test-long: export PYTHONDONTWRITEBYTECODE :=

test: setup lint jars ## lint, then the tests in two processes, fast ones first; of long ones and of cases of jobs, some
	LOGLAKE_TEST_ONE_LONG_IN=16 .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-long: export LOGLAKE_TEST_RECORD = $(CURDIR)/tests/long_runs.jsonl
test-long: export LOGLAKE_TEST_SEED := $(or $(SEED),$(shell date +%s))
test-long: setup jars ## a million damaged batches, 10^4 random logs, every kill, by SEED=; writes docs/results
	@echo "seed $$LOGLAKE_TEST_SEED"
	.venv/bin/python -m pytest -q -m long -n 2 --dist loadfile --no-loadscope-reorder
	.venv/bin/python -m pytest -q -m "not long" tests/property
	.venv/bin/python -m tests.fuzz.long --mutants 1000000 --seed $$LOGLAKE_TEST_SEED -o docs/results/damaged-batches.md
	LOGLAKE_OLD_CLIENTS=3000 .venv/bin/python -m pytest -q tests/fuzz/test_old_clients.py
	.venv/bin/python -m tests.fuzz.stored --seed $$LOGLAKE_TEST_SEED -o docs/results/stored-batches.md
	.venv/bin/python -m tests.fuzz.directories --cases 100000
	.venv/bin/python -m tests.fuzz.zookeeper_mutants --mutants 1000000 --seed $$LOGLAKE_TEST_SEED
	.venv/bin/python -m tests.differential.long --cases 10000 -o docs/results/random-logs.md
	.venv/bin/python -m tests.model.long --histories 100000 --length 5 --seed $$LOGLAKE_TEST_SEED --processes $$(nproc)
	.venv/bin/python -m tests.kafka.operated_long --cases 100
	LOGLAKE_TEST_CLUSTERS=20 .venv/bin/python -m pytest -q tests/kafka/test_operated_cluster.py
	LOGLAKE_TEST_EVERY_KILL=1 LOGLAKE_TEST_DOUBLE_CRASHES=12 .venv/bin/python -m pytest -q -s tests/crash
	LOGLAKE_TEST_EVERY_HARM=1 LOGLAKE_TEST_EVERY_JOB_ON_SPARK=1 .venv/bin/python -m pytest -q tests/harm/test_matrix.py tests/harm/test_second_look.py
	LOGLAKE_TEST_EVERY_HARM=1 LOGLAKE_TEST_EVERY_JOB_ON_SPARK=1 LOGLAKE_TEST_EVERY_ROUND=1 LOGLAKE_TEST_STREAM_KILLS=50 LOGLAKE_TEST_WATCHED_SECONDS=3600 .venv/bin/python -m pytest -q -s tests/jobs tests/spark
	LOGLAKE_TEST_EVERY_BYTE=1 .venv/bin/python -m pytest -q -s tests/harm/test_every_file.py
	LOGLAKE_TEST_EVERY_SNAPSHOT=1 .venv/bin/python -m pytest -q tests/object_store/test_corpus.py tests/cluster/test_corpus.py
	LOGLAKE_TEST_EVERY_TICK=1 .venv/bin/python -m pytest -q tests/dagster/test_sensor.py
	LOGLAKE_TEST_EVERY_BIT=1 .venv/bin/python -m pytest -q tests/fuzz/test_header_bits.py
	$(MAKE) versions
	LOGLAKE_TEST_MESSAGES=1000000 .venv/bin/python -m pytest -q -s tests/unit/logcore/messages
	LOGLAKE_TEST_VALUES=1000000 .venv/bin/python -m pytest -q -s tests/unit/logcore/values
	.venv/bin/python -m tests.long_runs
	$(MAKE) mutants SEED=$$LOGLAKE_TEST_SEED

versions: setup jars ## the fast tests with the oldest packages that the wheel allows, or with PYTHON=3.13 and the newest
	.venv/bin/uv venv -q --clear -p $(or $(PYTHON),3.11) .venv-versions
	.venv/bin/uv pip compile -q pyproject.toml --extra lake --extra s3 --extra remote -p .venv-versions \
		--resolution $(if $(PYTHON),highest,lowest-direct) -o .venv-versions/constraints.txt
	.venv/bin/uv pip install -q -p .venv-versions -c .venv-versions/constraints.txt -e '.[lake,s3,remote]' --group test
	.venv-versions/bin/python -m pytest -q -n 2 -m "not slow and not long" tests/unit

faults: setup jars ## mistakes planted into a copy of the code: each must turn a test red
	.venv/bin/python -m tests.planted_faults

mutants: setup ## mistakes that a machine makes in the modules that decide about data, by SEED= and TENTHS=
	.venv/bin/python -m tests.mutants --tenths $(or $(TENTHS),3) --seed $(or $(SEED),0) -o docs/results/mutants.md

ui: setup ## Dagster's pages of all registered lakes, on this machine only
	@.venv/bin/loglake ui --host 127.0.0.1

lint: setup ## ruff, mypy, import-linter
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: setup jars ## speed against others; writes the four pages of speed in docs/results
	.venv/bin/python -m tests.bench

pages: setup ## docs/tables.md, policies.md and results.md, made from the code and from docs/results
	.venv/bin/python -m deploy.reference_pages
	.venv/bin/python -m tests.results_page

release-check: setup ## which results are older than 5,000 changed lines; they must be measured again
	.venv/bin/python -m tests.results_page --most 5000

browser-setup: ## Debian's Chromium, for tests/browser and the pictures; as root
	apt-get update
	apt-get install --yes --no-install-recommends chromium

image-setup: ## Debian's podman, buildah and mmdebstrap, for the tests of the image; as root
	apt-get update
	apt-get install --yes --no-install-recommends podman buildah mmdebstrap crun fuse-overlayfs uidmap

screenshots: setup jars ## docs/pictures/*.png: the demo's pages in Chromium; look at each
	.venv/bin/python -m tests.browser.screenshots

lock: setup ## renew requirements.lock from pyproject.toml
	.venv/bin/uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 --extra lake --extra postgres --extra jvm --group dev \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links -o requirements.lock

clean: ## remove what can be made again; lakes and Dagster's history stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache "$$LOGLAKE_HOME/jars" "$$LOGLAKE_HOME/java" "$$LOGLAKE_HOME/kafka"
