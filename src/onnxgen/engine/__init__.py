"""Turns logits into tokens: sampling, and the step loop over a backend.

Knows sequences, options and the seam in `onnxgen.backends.base`; knows nothing of text or HTTP.
"""
