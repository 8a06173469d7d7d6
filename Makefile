# Two commands do everything on a machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
KERNEL_TESTS = tests/core $(addprefix tests/sponge/,constraints cv engine integrators neighbors pme potentials run/test_simulation.py sampling/test_sits.py virtual_sites) \
	$(addprefix tests/quantum/,compile expectation gates noise simulators test_changes.py test_fuzz.py) \
	$(addprefix tests/reinforce/,buffers envs games mcts agents/test_ppo.py test_program.py test_returns.py test_value_transforms.py)

PIP = .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check

demo:
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet -e ".[plot]"
	.venv/bin/python -m triskele demo

test:
	$(PYTHON) -m venv .venv
	$(PIP) -e ".[test]"
	.venv/bin/python -m tests

# Under two minutes: linters, and the test files that take less than a second.
quick:
	.venv/bin/python -m tests --quick

# What the changes since a commit reach, slow and peer tests too: for a module that you change, before you commit.
BASE ?= HEAD
affected:
	$(PIP) -e ".[peer]"
	.venv/bin/python -m tests --affected $(BASE)

# What takes a machine for hours: slow and peer tests, ten times the random cases, and all kernels compiled from nothing.
night:
	$(PYTHON) -m venv .venv
	$(PIP) -e ".[peer]"
	rm -rf .cache/night
	HYPOTHESIS_PROFILE=night TRISKELE_CACHE_DIR=$(CURDIR)/.cache/night .venv/bin/python -m tests -m ""

# What touches memory by index, compiled with every index checked. Kernels raise IndexError; programs of `jit` stop the process.
checked:
	$(PYTHON) -m venv .venv
	$(PIP) -e ".[test]"
	TRISKELE_CHECKED=1 .venv/bin/python -m tests $(KERNEL_TESTS)

# A wheel with the kernels compiled for the usual processors: the two minutes that each user would wait are spent here.
wheel:
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet -e . build wheel
	.venv/bin/python -m triskele warmup --ship
	rm -rf dist
	.venv/bin/python -m build --wheel
	.venv/bin/python -m wheel tags --remove --python-tag $$(.venv/bin/python -c 'import sys; print(sys.implementation.cache_tag.replace("cpython-", "cp"))') \
		--platform-tag $$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_platform().replace("linux", "manylinux_2_28").replace("-", "_").replace(".", "_"))') dist/*.whl
	rm -rf core/shipped

# The documentation, with warnings as errors: site/index.html.
docs:
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet -e ".[docs]"
	mkdir -p .cache/site
	.venv/bin/sphinx-build -q -W --keep-going -j auto -c docs -d .cache/doctrees .cache/site site

# Pictures of the gallery, in docs/pages/images/gallery: all examples at full length, several hours.
gallery:
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet -e ".[plot,quantum,chem,rl,md]"
	.venv/bin/python docs/gallery.py

bench:
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet -e ".[bench]"
	.venv/bin/python -m tests.benchmarks core
	.venv/bin/python -m tests.benchmarks sponge
	.venv/bin/python -m tests.benchmarks quantum
	.venv/bin/python -m tests.benchmarks reinforce

lint:
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports
	.venv/bin/mypy

# Statements, refusals and docstrings by folder, and the growth since a commit (`make size BASE=main`).
size:
	.venv/bin/python -m tests.size $(BASE)

clean:
	rm -rf .venv build dist site core/shipped .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .cache
	find core sponge quantum reinforce tests -name __pycache__ -prune -exec rm -rf {} +

.PHONY: demo test quick affected night checked wheel docs gallery bench lint size clean
