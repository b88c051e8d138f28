"""The chat page and the page of the API: static files, and what a browser may do with them.

Knows files of the package; the pages themselves are clients of the API as any other, and need no build step.
"""
