"""The graph representation: onnx-ir, and what we add to it. Empty for now.

Knows nodes, values and tensors; knows nothing of shapes inferred or kernels.
"""
