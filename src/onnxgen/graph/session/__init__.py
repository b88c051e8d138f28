"""`InferenceSession` with the surface of ONNX Runtime. Empty for now.

Joins loader, optimizer, planner and providers; has no mechanism of its own.
"""
