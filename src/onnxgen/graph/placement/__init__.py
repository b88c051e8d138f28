"""Who runs each node: the providers' claims in order, and why the others declined.

Knows providers by their protocol; compiles and runs nothing.
"""
