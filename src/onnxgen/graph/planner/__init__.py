"""Plans: lifetimes, memory and the Python source that runs a graph.

Knows programs of kernel calls and the symbolic sizes of their values; knows no provider and runs nothing.
"""
