"""Operators, or versions of operators, that onnx.reference lacks or has wrong; one file per family.

Each is an `onnx.reference.op_run.OpRun`, so that it also runs inside functions and graphs of other operators.
"""
