"""Drafts in the engine's steps: who gets one, what is chosen along it, and what is learned from it.

Knows samples, steps and what `onnxgen.engine.speculation` guesses; where guesses come from is decided there.
"""
