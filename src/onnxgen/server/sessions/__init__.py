"""Conversations that the server keeps for clients that send only what is new.

Knows messages, tenants and limits; knows no model, no prompt and no cache: what a conversation has computed is in the
engine's prefix cache, as it is for everybody.
"""
