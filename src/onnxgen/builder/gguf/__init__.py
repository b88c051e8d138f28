"""The GGUF format: its container, its block formats, and its names turned into Hugging Face's.

Knows bytes and conventions of the converters that write GGUF files; knows nothing of graphs.
"""
