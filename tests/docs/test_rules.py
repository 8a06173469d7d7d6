"""The page of derivative rules has a row for every registered primitive and shows the rules of the source."""

import importlib.util
import re
from pathlib import Path

import pytest

from triskele.core.graph.primitive import PRIMITIVES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("rules", ROOT / "docs" / "rules.py")
    rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rules)
    return rules.page()


def test_every_primitive_has_a_row(page):
    rows = {re.match(r"\| `(\w+)` ", line)[1]: line for line in page.splitlines() if line.startswith("| `")}
    registered = {name: p for name, p in PRIMITIVES.items() if name.isidentifier()}  # users' have their module before
    ours = {name: p for name, p in registered.items() if p.spec.__module__.startswith("triskele.core.ops")}
    assert sorted(rows) == sorted(ours) and len(rows) > 200
    assert not [name for name, p in ours.items() if any(p.vjps or ()) and "| none |" in rows[name]]


@pytest.mark.parametrize(
    "row",
    [
        "| `cumsum` | scan | `bind(cumsum_p, ct, axis=axis, reverse=not reverse)` | linear | scan_primitive |",
        "| `hypot` | elementwise | `t * (x / _nonzero(out))`<br>`t * (y / _nonzero(out))` | same | elementwise |",
        "| `subtract` | elementwise | `t`<br>`-t` | same | elementwise |",
        "| `floor` | elementwise | none | none | elementwise |",
    ],
)
def test_rules_are_those_of_the_source(page, row):
    assert row in page.splitlines()


def test_rules_of_several_lines_follow(page):
    table, _, long = page.partition("## Rules of several lines")
    assert "| `cholesky` | opaque | below | below |" in table
    assert "`cholesky`, in `core/ops/linalg/" in long and "@cholesky_p.def" in long
