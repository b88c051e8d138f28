"""Model names that users type, and how to fetch what they stand for.

Knows sources, hashes and cache folders; knows nothing of what is inside a checkpoint.
"""
