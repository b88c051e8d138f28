"""The CPU provider: operators by family in `ops`, NumPy where NumPy is good and Numba where it is not.

Knows kernels and the host; knows nothing of sessions.
"""
