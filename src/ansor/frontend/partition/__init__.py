"""Cutting a graph into tasks: what runs together as one kernel."""

from ansor.frontend.partition.methods import USUAL, checked
from ansor.frontend.partition.plan import partition

__all__ = ["USUAL", "checked", "partition"]
