"""Architecture families: one file each, from a configuration to a `DecoderSpec`.

Registered by the class name in ``architectures``; knows configurations and nothing of graphs.
"""

from onnxgen.builder.families import gemma3, llama, mistral, phi3, qwen2, qwen3
from onnxgen.builder.families.registry import decoder_spec, known_architectures

__all__ = [
    "decoder_spec",
    "gemma3",
    "known_architectures",
    "llama",
    "mistral",
    "phi3",
    "qwen2",
    "qwen3",
]
