"""From a `DecoderSpec` and weights to a graph: one idea of the decoder in each file.

Knows operators and their layouts; knows no architecture by name and no checkpoint format.
"""

from onnxgen.builder.emitter.decoder import emit_decoder

__all__ = ["emit_decoder"]
