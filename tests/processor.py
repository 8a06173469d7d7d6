"""What the processor at hand can do."""

import llvmlite.binding
import pytest

# On processors without AVX-512, OpenBLAS rounds a row of a small product by how many rows there are.
equal_rows = pytest.mark.skipif(
    not llvmlite.binding.get_host_cpu_features().get("avx512f", False),
    reason="OpenBLAS's products depend on the number of rows on this processor",
)
