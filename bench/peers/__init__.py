"""Competitors of a benchmark, each in a process of its own."""
