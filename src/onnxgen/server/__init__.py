"""The OpenAI-compatible HTTP server. Empty for now.

Knows HTTP and the public Python API; knows nothing of backends.
"""
