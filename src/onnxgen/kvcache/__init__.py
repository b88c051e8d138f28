"""Block pool, block tables, prefix index and tiers.

Knows ids, counts and lengths; holds no arrays and runs no model.
"""
