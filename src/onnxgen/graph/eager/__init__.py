"""Operators as Python functions. Empty for now.

Knows operators; shares nothing with sessions but the layers below.
"""
