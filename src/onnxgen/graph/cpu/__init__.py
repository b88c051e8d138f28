"""The CPU provider: kernels compiled by Numba. Empty for now.

Knows kernels and instruction sets; knows nothing of sessions.
"""
