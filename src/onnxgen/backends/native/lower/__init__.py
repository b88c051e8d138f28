"""Decoder graphs to step plans: what each value of a graph means for packed tokens, one rule for each operator."""

from onnxgen.backends.native.lower.decoder import lower_decoder

__all__ = ["lower_decoder"]
