"""Loops over raw arrays, compiled by Numba: what NumPy cannot do in few passes.

They know shapes, strides and element types, and nothing of nodes. Importing them imports Numba, so the files of
operators import them where a kernel is made.
"""
