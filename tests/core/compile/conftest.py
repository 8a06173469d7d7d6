import pytest

from triskele.core.graph.primitive import PRIMITIVES


@pytest.fixture
def no_python(monkeypatch):
    """``no_python("sort", ...)``: from here on these primitives raise where compiled code calls back to NumPy."""

    def forbid(*names):
        for name in names:

            def impl(*args, name=name, **params):
                raise AssertionError(f"{name} went through Python")

            monkeypatch.setattr(PRIMITIVES[name], "impl", impl)

    return forbid
