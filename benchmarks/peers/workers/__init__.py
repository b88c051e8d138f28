"""One module for each program that is measured; each runs as a process of its own, in that program's environment.

Imports nothing but the standard library, NumPy and, inside functions, the program itself.
"""
