"""The chat page: static files, and what a browser may do with them.

Knows files of the package; the page itself is a client of the API as any other, and needs no build step.
"""
