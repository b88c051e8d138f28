"""The command line: a thin layer over the Python API that prints and exits.

Knows the terminal; knows nothing that the Python API does not offer.
"""
