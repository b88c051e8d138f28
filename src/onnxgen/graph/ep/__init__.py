"""The execution provider protocol: claim, compile, allocate, copy.

Knows what a provider promises; knows no provider.
"""
