"""ir.Graph → ONNX."""

from atcpy.exporters.onnx.exporter import export_model
from atcpy.exporters.onnx.in_its_words import CannotExport, Constant, Rewritten, export_in_words

__all__ = ["CannotExport", "Constant", "Rewritten", "export_in_words", "export_model"]
