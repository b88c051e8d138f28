"""One module for each program that serves; each runs as a process of its own, in that program's environment.

Imports nothing but the standard library, NumPy and, inside functions, the program itself.
"""
