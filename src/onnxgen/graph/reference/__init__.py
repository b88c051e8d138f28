"""The ``reference`` execution provider: every operator of the standard, slow and complete.

Runs what `onnx.reference` runs, and has implementations of its own where that is wrong or missing.
"""
