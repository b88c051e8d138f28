"""Lifetimes, arenas and the order of execution. Empty for now.

Knows sizes; touches no data.
"""
