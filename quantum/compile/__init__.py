"""Circuits to tables: lowering, fusion, scheduling."""
