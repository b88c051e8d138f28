"""The C ABI. Empty for now.

Knows handles and ownership across the language border; everything else is the Python API.
"""
