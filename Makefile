# Two commands do everything on a machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
EXAMPLES = examples/core/fit_ode.py examples/sponge/solvated_peptide.py examples/quantum/vqe_lih.py examples/reinforce/alphazero_connect_four.py

demo:
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet -e ".[plot]"
	for example in $(EXAMPLES); do .venv/bin/python $$example || exit 1; done

test:
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet -e ".[test]"
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	.venv/bin/mypy
	.venv/bin/python -m pytest -n 2 -m "not slow"

bench:
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet -e ".[bench]"
	.venv/bin/python -m tests.benchmarks core
	.venv/bin/python -m tests.benchmarks sponge
	.venv/bin/python -m tests.benchmarks quantum
	.venv/bin/python -m tests.benchmarks reinforce

lint:
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	.venv/bin/mypy

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.PHONY: demo test bench lint clean
