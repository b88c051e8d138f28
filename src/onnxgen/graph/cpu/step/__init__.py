"""A step of a model as a table of kernel calls that threads walk together.

Knows machine code, threads and addresses; knows nothing of models, operators or graphs.
"""
