"""Drafts: tokens guessed ahead, computed together with the pending one, and kept as far as the model agrees.

Knows where drafts come from, how long they should be and what they bring; runs no model but a proposer's own.
"""
