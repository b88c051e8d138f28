"""Symbolic shape inference over standard and contrib operators. Empty for now.

Knows operators and dimensions; runs nothing.
"""
