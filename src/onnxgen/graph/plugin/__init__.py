"""Providers that other packages bring through entry points. Empty for now.

Knows how to find them; knows none of them.
"""
