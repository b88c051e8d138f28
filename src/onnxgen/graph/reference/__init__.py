"""The reference provider: every operator of the standard through ``onnx.reference``, slow and complete.

Knows operators; it is the oracle of the other providers.
"""
