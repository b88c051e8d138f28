"""Routing of requests over several engines. Empty for now.

Knows replicas, load and prefixes; knows nothing of models.
"""
