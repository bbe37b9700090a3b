# Two commands are all a newcomer needs: `make demo` and `make test`. Each sets up its own environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint format docs bench experiments clean
.DEFAULT_GOAL := demo

demo: $(READY)
	$(BIN)/appgrad demo --output demo

test: $(READY)
	$(BIN)/python -m pytest -n auto

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

# All records, figures and the page of results; QUICK=1 takes minutes, and leaves what is committed alone.
PLACE := $(if $(QUICK),quick,docs)
experiments: $(READY)
	@test -n "$(APPGRAD_DATA)" || (echo "set APPGRAD_DATA to the folder of the data sets" >&2; exit 1)
	for name in mnist mediamill ptb url bilingual; do \
	    $(BIN)/appgrad experiment $$name --data "$(APPGRAD_DATA)" --out $(PLACE)/results --figures $(PLACE)/figures $(if $(QUICK),--quick) || exit 1; \
	done
	$(BIN)/python docs/write_results.py --records $(PLACE)/results --figures $(PLACE)/figures --page $(PLACE)/results.md
	@echo "the results are in $(PLACE)/results.md"

# OTHER=folder compares with another version, whose `src` that is.
bench: $(READY)
	@test -n "$(APPGRAD_DATA)" || (echo "set APPGRAD_DATA to the folder of the data sets" >&2; exit 1)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt cca-zoo
	$(BIN)/python -m benchmarks exact_mnist --record docs/results/benchmarks/exact_mnist.json
	$(BIN)/python -m benchmarks paper_curves --record docs/results/benchmarks/paper_curves.json
	$(BIN)/python -m benchmarks peak_memory --record docs/results/benchmarks/peak_memory.json
	$(BIN)/python -m benchmarks lobpcg_time --record docs/results/benchmarks/lobpcg_time.json
	$(BIN)/python -m benchmarks joint_head --record docs/results/benchmarks/joint_head.json
	$(BIN)/python -m benchmarks stopping --record docs/results/benchmarks/stopping.json
	$(BIN)/python -m benchmarks cost_growth --record docs/results/benchmarks/cost_growth.json
	$(BIN)/python -m benchmarks sparse_comparison --record docs/results/benchmarks/sparse_comparison.json
	$(BIN)/python -m benchmarks one_pass --record docs/results/benchmarks/one_pass.json
	$(BIN)/python -m benchmarks larger_than_memory --record docs/results/benchmarks/larger_than_memory.json
	$(BIN)/python -m benchmarks kernel_cca --record docs/results/benchmarks/kernel_cca.json
	$(BIN)/python -m benchmarks sparse_cca --record docs/results/benchmarks/sparse_cca.json
	$(BIN)/python -m benchmarks dask_cluster --record docs/results/benchmarks/dask_cluster.json
	$(BIN)/python -m benchmarks step_sizes --record docs/results/benchmarks/step_sizes.json
	$(BIN)/python -m benchmarks fingerprint --record docs/results/benchmarks/fingerprint.json
	$(BIN)/python -m benchmarks small_fits --record docs/results/benchmarks/small_fits.json
	$(BIN)/python -m benchmarks effective_rows --record docs/results/benchmarks/effective_rows.json
	$(BIN)/python -m benchmarks inference --record docs/results/benchmarks/inference.json
	$(BIN)/python -m benchmarks import_time
	$(BIN)/python -m benchmarks walks
	@test -z "$(OTHER)" || $(BIN)/python -m benchmarks versions "$(OTHER)"

# The pip that comes with an older Python does not know the newest wheels: upgrade it first.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'appgrad needs Python 3.11 or newer: make PYTHON=python3.12 ...')"
	@echo "setting up $(VENV), once; this takes a minute or two"
	$(PYTHON) -m venv $(VENV) || (echo "no venv module: on Debian, apt install python3-venv" >&2; exit 1)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) build dist demo site quick .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
