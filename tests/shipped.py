"""What the packages ship, found by existing: a test that walks it covers what is added later."""

import inspect

from triskele.core.extend import discover


def subclasses(base, package):
    """Every concrete class below `base` that a module of `package` defines, by name."""
    discover.modules(package, deep=True)

    def below(cls):
        for c in cls.__subclasses__():
            yield c
            yield from below(c)

    found = {c.__name__: c for c in below(base) if c.__module__.startswith(f"{package}.") and not inspect.isabstract(c)}
    assert found, f"{package} has no {base.__name__}"
    return dict(sorted(found.items()))
