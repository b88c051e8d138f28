"""Attention over paged keys and values, and what writes the pages: kernels of a step.

They know the layout of pages and the words of the step's header, and nothing of models or of who owns which block.
"""
