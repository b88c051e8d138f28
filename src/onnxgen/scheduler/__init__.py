"""Decides which requests take part in the next step, and with how many tokens.

Knows budgets, lengths and priorities; holds no arrays, runs no model and knows nothing of text.
"""
