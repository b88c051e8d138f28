"""The ONNX backend tests of the installed onnx, run through our providers and, beside them, ONNX Runtime.

Knows test cases and verdicts; knows nothing of how a session works.
"""
