"""Text in and out: tokenizers, incremental detokenizing, chat templates.

Knows tokenizer files and templates; knows nothing of graphs or backends.
"""
