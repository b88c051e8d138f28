"""Graph passes, one per file. Empty for now.

Knows graphs and shapes; knows no model and no provider.
"""
