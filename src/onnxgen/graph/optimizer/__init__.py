"""The optimizer: passes that make a graph cheaper without changing what it computes.

Knows operators, constants and what providers claim; knows no model and runs nothing itself.
"""

from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.optimizer.pipeline import optimize
from onnxgen.graph.optimizer.report import PassReport

__all__ = ["OptimizationLevel", "PassReport", "optimize"]
