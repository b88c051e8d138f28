"""Servers of one model beside each other: many requests at once, shared prompts, late comers, conversations.

Knows what requests come when, and what may be said of the times of their tokens. How programs are run, in turns and each
in an environment of its own, is `benchmarks.peers`'.
"""
