"""The Python API: `Model`, `Tokenizer`, `Generator` and friends, and `LLM`.

Knows every layer below and joins them; has no mechanism of its own.
"""
