"""The reference provider: every standard operator, slow and complete. Empty for now.

Knows operators; it is the oracle of the other providers.
"""
