"""The passes, one in a file.

Each knows a form of graph and what may take its place; none knows a model.
"""
