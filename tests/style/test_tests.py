"""Every test can fail: it asserts, expects an error or a warning, or calls a helper whose name says that it does."""

import ast
import functools
import re
from pathlib import Path

from tests.__main__ import durations

TESTS = Path(__file__).parents[1]
CHECKS = re.compile(r"(^|\.)_?(assert|check|test)(_\w+)?$|^pytest\.(raises|warns|fail)$|^np\.testing\.")


def can_fail(function):
    """Return True if a function asserts, or calls what does: CHECKS, or `subprocess.run(..., check=True)`."""
    return any(
        isinstance(node, ast.Assert)
        or isinstance(node, ast.Call)
        and (
            CHECKS.search(ast.unparse(node.func))
            or any(k.arg == "check" and ast.unparse(k.value) == "True" for k in node.keywords)
        )
        for node in ast.walk(function)
    )


@functools.cache
def definitions():
    """Every function of the tests, with its file."""
    return [
        (path, node)
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]


def functions(kind):
    for path, node in definitions():
        if re.match(kind, node.name):
            yield f"{path.relative_to(TESTS)}:{node.lineno} {node.name}", path, node


def test_every_test_can_fail():
    idle = [where for where, path, node in functions("test_") if path.name.startswith("test_") and not can_fail(node)]
    assert not idle, "a test must assert something, or call a helper named assert_* or check_*: " + ", ".join(idle)


def test_unmarked_tests_are_short():
    """Tests that take over five seconds with compiled kernels are marked `slow`, but for those with a reason here."""
    whole = {
        "tests/docs/test_snippets.py::": "the promise of the READMEs: one process runs a page",
        "tests/docs/test_site.py::test_site_builds_without_warnings": "the site is built as a whole",
        "tests/docs/test_notebooks.py::": "one notebook stays: a kernel starts, and runs a tutorial",
        "tests/examples/test_examples.py::": "the four of `make demo`",
        "tests/style/": "they read, or import, all sources",
        "tests/docs/test_public_docstrings.py::": "as well",
        "tests/faults/": "one run of each kind is killed and continued",
        "tests/core/test_optional.py::": "every package is imported without optional ones",
        "tests/core/kernels/test_njit.py::test_second_process": "the cache works between processes",
        "tests/core/kernels/test_checked.py::test_kernels": "one process compiles eight kernels",
    }
    long = {
        test: seconds
        for test, seconds in durations().items()
        if "::" in test and seconds > 5 and not any(test.startswith(known) for known in whole)
    }
    assert not long, f"mark them slow, or make them shorter (`python -m tests --record` measures): {long}"


def test_every_helper_that_claims_to_check_can_fail():
    idle = [
        where
        for where, _, node in functions("_?assert_")
        if not can_fail(node) and not any(isinstance(part, ast.Raise) for part in ast.walk(node))
    ]
    assert not idle, "a helper named assert_* must assert something: " + ", ".join(idle)
