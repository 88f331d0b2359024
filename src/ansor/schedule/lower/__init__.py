"""Lowering: from a program to loop functions, as a visible list of passes."""

from ansor.schedule.lower.passes import PASSES, Lowered, lower

__all__ = ["PASSES", "Lowered", "lower"]
