"""The number of statements, which may only grow for a capability. Its own file: reading all sources takes seconds."""

from tests.size import by_folder, count, today

# Statements of all packages (`make size`), rounded up to the next hundred.
AT_MOST = 94_430


def test_statements_do_not_grow_unnoticed():
    found = by_folder(today())["all"]["statements"]
    assert found <= AT_MOST, (
        f"{found} statements, at most {AT_MOST}: see `make size BASE=main`; remove some elsewhere, or raise AT_MOST in "
        f"tests/style/test_size.py and name in the commit the capability that they give"
    )


def test_line_breaks_do_not_change_the_count():
    short = "def f(x):\n    '''Add.'''\n    if x < 0: raise ValueError(x)\n    check.integer(x, 'x'); return x + 1\n"
    long = short.replace(": raise", ":\n        raise").replace("; return", "\n    return").replace("x + 1", "(x\n+ 1)")
    assert count(short)["statements"] == count(long)["statements"] == 5
    assert count(short)["refusals"] == 2 and count(short)["docstrings"] == 1 and count(long)["lines"] == 7
