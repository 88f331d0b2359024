"""The machine as data: what it is (`Target`), and how fast it was measured to be."""

from ansor.target.calibrate import Calibration
from ansor.target.target import Target

__all__ = ["Calibration", "Target"]
