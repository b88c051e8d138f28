"""The execution provider protocol: claim, compile, allocate, copy. Empty for now.

Knows what a provider promises; knows no provider.
"""
