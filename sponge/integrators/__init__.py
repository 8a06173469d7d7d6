"""Integrators: one class a file; `base` says what they are, `testing` checks them."""
