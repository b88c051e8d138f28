"""Block pool, page tables, prefix index and tiers.

Knows ids, counts and lengths; holds no arrays and runs no model. Empty for now: generation owns one block
per sequence.
"""
