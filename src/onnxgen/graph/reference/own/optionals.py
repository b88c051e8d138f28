"""Optional values: the value itself or None, as everywhere here. onnx.reference has them in a list."""

from __future__ import annotations

from typing import Any

from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()


@OWN.operator("Optional", 15, 28)
class Optional(OpRun):
    """The value, or None where there is none; ``type`` says of what kind that would be."""

    def _run(self, x: Any = None, *, type: Any = None) -> Any:
        return (x,)

    def _check_and_fix_outputs(self, res: tuple[Any, ...]) -> tuple[Any, ...]:
        return res  # onnx.reference's takes None for no value of ONNX
