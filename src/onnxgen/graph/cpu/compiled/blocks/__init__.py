"""Products with, and rows of, matrices of 2, 4 or 8 bits that are quantized in blocks along their depth.

They know panels of packed columns and rows of quantized activations, and nothing of operators or models.
"""
