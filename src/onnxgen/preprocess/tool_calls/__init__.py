"""Tool calls: what tools a request offers, and how a model's answer calls them.

Knows the formats in which models write calls; knows nothing of the engine, and runs no tool.
"""
