"""Rewrites of decoder graphs before ONNX Runtime sees them, one idea per module.

Knows operators and shapes; knows nothing of sessions, caches or steps.
"""
