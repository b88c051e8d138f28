"""onnxgen beside other programs that run language models, each in a virtual environment of its own.

Knows models by the folders that `benchmarks.peers.setup` makes, and programs by the workers that drive them.
"""
