"""Missing packages are reported with the extra that installs them."""

import math

import pytest

from triskele.core import optional


def test_need():
    assert optional.need("math", "f", "plot") is math
    with pytest.raises(ImportError, match=r'^f: needs no_such_package \(pip install "triskele\[plot\]", '
                                          r'or in a checkout pip install -e "\.\[plot\]"\)$'):
        optional.need("no_such_package.part", "f", "plot")
