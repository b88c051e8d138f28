"""The graph representation: onnx-ir, and the types and operator versions around it.

Knows nodes, values and tensors; knows nothing of shapes inferred or kernels.
"""
