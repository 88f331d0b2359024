"""Models of PyTorch: `from_torch`, and the backend "ansor" of `torch.compile`."""

from ansor.frontend.torch.program import from_torch

__all__ = ["from_torch"]
