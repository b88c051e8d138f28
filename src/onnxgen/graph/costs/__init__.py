"""The cost model: bytes and operations of a node, and the time a device needs for them.

Knows operators, shapes and device facts; knows no kernel and no provider.
"""
