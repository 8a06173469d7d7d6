"""From functions and expressions of users to explicit SIMD source code."""
