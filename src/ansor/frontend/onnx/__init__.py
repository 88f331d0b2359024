"""Models of ONNX files."""

from ansor.frontend.onnx.model import from_onnx

__all__ = ["from_onnx"]
