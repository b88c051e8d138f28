"""Tokens that are guessed ahead: where guesses come from, how long they should be and what they bring.

Knows of steps only how long they take, and of an engine nothing; runs no model but a proposer's own.
"""
