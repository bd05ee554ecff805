SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARCHIVE := $(VENV)/.archived
DBT := build/dbt
COMPILED := $(VENV)/.compiled
UV := uv==0.13.8
RELEASE := build/release
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Every process would compile the modules anew: 0.6 s for each of the hundreds that the tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup airflow demo demo-stream test check browser bench bench-ttl docs dist sbom audit lock clean dbt

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) $(ARCHIVE) ## Make .venv with everything pinned in requirements.lock and the command .venv/bin/stateplan
	@:

$(STAMP): requirements.lock pyproject.toml
	@python=$$(PYTHON="$(PYTHON)" sh scripts/preflight.sh) || exit 1; \
	test -x $(BIN)/python || { echo "making $(VENV) with $$python"; $$python -m venv --clear $(VENV) || exit 1; }; \
	echo "installing the packages of requirements.lock (PySpark alone is 450 MB; a few minutes the first time)"; \
	{ $(BIN)/python -m pip install -qq "$(UV)" && \
	  $(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements.lock; } || \
	$(BIN)/python -m pip install -qq --require-hashes -r requirements.lock || exit 1; \
	$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --editable . && touch $@

$(ARCHIVE): $(STAMP)
	@$(BIN)/stateplan archive-classes || true
	@touch $@ && echo "ready: $(BIN)/stateplan -h (source $(BIN)/activate puts stateplan on the PATH)"

# Each test process would compile all modules and tests while the others do the same: 20 s of processor time each.
# With -j, this happens beside the type checker.
$(COMPILED): $(STAMP)
	@$(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1 || true
	@touch $@

demo: setup ## Compile, edit and run the two FLIP-292 examples, and show each operator obeying its own TTL
	@$(BIN)/python -m examples.demo

demo-stream: setup ## Start Kafka and PostgreSQL, join a stream with a table that changes, and edit a TTL while the job runs
	@$(BIN)/python -m examples.stream.demo

test: setup check browser dbt $(COMPILED) ## Run the linters, the type checker and every test
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 25

check: $(STAMP) ## Run ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

browser: $(STAMP) ## Find a Chromium for the tests of HTML pages, or unpack one from npm into build/browser
	@$(BIN)/python -m scripts.browser

dbt: $(DBT)/.installed ## Install dbt into build/dbt, with links to the adapter in integrations/dbt, and check its types
	@$(BIN)/mypy --config-file integrations/dbt/mypy.ini -p dbt.adapters.stateplan

# Beside .venv and not in it: dbt pins older releases of packages that are there, and runs with the newer ones.
$(DBT)/.installed: integrations/dbt/requirements.lock $(STAMP)
	@rm -rf $(DBT) && { $(BIN)/uv pip install -q --python $(BIN)/python --target $(DBT) --no-deps --require-hashes \
		-r integrations/dbt/requirements.lock || \
	$(BIN)/python -m pip install -qq --target $(DBT) --no-deps --require-hashes -r integrations/dbt/requirements.lock; } && \
	for half in adapters include; do \
		ln -s ../../../../integrations/dbt/dbt/$$half/stateplan $(DBT)/dbt/$$half/stateplan || exit 1; done && touch $@

bench: setup ## Measure the nine queries on all engines and write docs/background/benchmarks.md (half an hour and more)
	@$(BIN)/python -m benchmarks.survey --only queries

bench-ttl: setup ## Measure a TTL per operator and write docs/background/per-operator-ttl.md (ten minutes and more)
	@$(BIN)/python -m benchmarks.ttl

airflow: setup ## Install Airflow into build/airflow, and test the operators against a real gateway
	@test -x build/airflow/bin/pytest || { $(BIN)/python -m venv build/airflow && $(BIN)/uv pip install -q \
		--python build/airflow/bin/python pytest apache-airflow==3.3.2 --editable ./integrations/airflow; }
	@export AIRFLOW_HOME=$$PWD/build/airflow/home AIRFLOW__CORE__LOAD_EXAMPLES=False \
		AIRFLOW__CORE__UNIT_TEST_MODE=True; \
	build/airflow/bin/airflow db migrate >/dev/null 2>&1; \
	cd integrations/airflow && ../../build/airflow/bin/python -m pytest -q -p no:cacheprovider tests

docs: setup ## Bring the generated parts of the documentation up to date
	@$(BIN)/python -m scripts.docs && $(BIN)/python -m scripts.dashboard

$(RELEASE)/.installed: scripts/release.lock
	@python=$$(PYTHON="$(PYTHON)" sh scripts/preflight.sh) || exit 1; \
	$$python -m venv --clear $(RELEASE) && $(RELEASE)/bin/pip install -qq "$(UV)" && \
	$(RELEASE)/bin/uv pip install -q --python $(RELEASE)/bin/python --require-hashes -r scripts/release.lock && touch $@

dist: $(STAMP) $(RELEASE)/.installed ## Build sdist and wheel of the last commit twice, compare them, and check how PyPI shows them
	@$(BIN)/python -m scripts.distributions
	@$(RELEASE)/bin/twine check --strict dist/*.whl dist/*.tar.gz

sbom: dist ## Write the packages that the wheel of `make dist` needs, with versions and licences, to dist/sbom.cdx.json
	@$(BIN)/python -m scripts.licences
	@$(RELEASE)/bin/python -m venv --without-pip --clear $(RELEASE)/wheel
	@$(RELEASE)/bin/uv pip install -q --python $(RELEASE)/wheel/bin/python --constraints requirements.lock \
		"$$(ls dist/*.whl)[$$($(BIN)/python -m scripts.licences --extras)]"
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(RELEASE)/bin/cyclonedx-py environment --output-reproducible \
		--gather-license-texts --pyproject pyproject.toml --mc-type library -o dist/sbom.cdx.json $(RELEASE)/wheel/bin/python

audit: $(RELEASE)/.installed ## Look up known vulnerabilities of the pinned packages, at PyPI; a package without an answer is an error
	@for lock in requirements.lock scripts/release.lock integrations/dbt/requirements.lock; do \
		$(RELEASE)/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off -r $$lock || exit 1; done

lock: ## Pin the newest versions that pyproject.toml allows into requirements.lock and the other locks
	@python=$$(PYTHON="$(PYTHON)" sh scripts/preflight.sh) || exit 1; \
	test -x build/lock/bin/uv || { $$python -m venv build/lock && build/lock/bin/pip install --quiet "$(UV)"; } || exit 1; \
	pin() { build/lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' "$$@"; }; \
	printf '%s\n' 'hatchling>=1.33' 'hatch-fancy-pypi-readme>=25.1' 'editables>=0.5' 'setuptools>=77' | \
		pin --extra dev --output-file requirements.lock pyproject.toml - && \
	pin --group release --output-file scripts/release.lock && \
	pin --constraint requirements.lock --override integrations/dbt/overrides.txt \
		--no-emit-package dbt-core-experimental-parser \
		$$(sed -nE 's/^([a-z0-9._-]+)==[^ ;]+ \\$$/--no-emit-package \1/p' requirements.lock) \
		--output-file integrations/dbt/requirements.lock integrations/dbt/requirements.in

clean: ## Remove what the other targets made, .venv included
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db \
		derby.log artifacts benchmarks/data benchmarks/flink/dist benchmarks/flink/classes examples/data examples/out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
