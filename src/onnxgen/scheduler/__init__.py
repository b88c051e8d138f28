"""Decides which requests take part in the next step.

Knows budgets, lengths and priorities; holds no arrays and knows nothing of HTTP. Empty for now.
"""
