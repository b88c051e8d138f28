"""What the configurations of all families have in common: sizes, windows, tied embeddings."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.builder.families.reading import ConfigReader
from onnxgen.builder.spec import LayerSpec
from onnxgen.errors import CheckpointError

FULL = "full_attention"
SLIDING = "sliding_attention"
_MAX_LAYERS = 10_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes that every decoder has, checked against each other."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int


def read_sizes(config: ConfigReader, *, head_dim: int | None = None) -> Sizes:
    """Read the sizes; ``head_dim`` is the family's default where the configuration has none.

    Raises:
        CheckpointError: A size is missing, or one does not divide another that it must.
    """
    hidden = config.integer("hidden_size")
    heads = config.integer("num_attention_heads")
    kv_heads = config.integer("num_key_value_heads", heads)
    width = config.optional_integer("head_dim") or head_dim
    if width is None:
        if hidden % heads:
            raise CheckpointError(
                f"{config.where}: hidden_size {hidden} does not divide by num_attention_heads {heads}, "
                "and there is no head_dim"
            )
        width = hidden // heads
    if heads % kv_heads:
        raise CheckpointError(
            f"{config.where}: num_attention_heads {heads} does not divide by num_key_value_heads {kv_heads}"
        )
    if width % 2:
        raise CheckpointError(f"{config.where}: head_dim {width} is odd; rotary embedding needs an even one")
    return Sizes(
        hidden=hidden,
        layers=config.integer("num_hidden_layers", maximum=_MAX_LAYERS),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width,
        vocab=config.integer("vocab_size"),
        context=config.integer("max_position_embeddings"),
    )


def uniform_layers(count: int, *, window: int | None) -> tuple[LayerSpec, ...]:
    """Layers that are all alike."""
    return tuple(LayerSpec(rope=0, window=window) for _ in range(count))


def layers_by_type(
    config: ConfigReader, types: tuple[str, ...], *, window: int | None, sliding_rope: int = 0
) -> tuple[LayerSpec, ...]:
    """Layers by their type: full ones use rope 0, sliding ones ``sliding_rope`` and the window.

    Raises:
        CheckpointError: A type is neither of the two.
    """
    for index, kind in enumerate(types):
        if kind not in (FULL, SLIDING):
            raise CheckpointError(
                f"{config.where}: layer {index} has type {kind!r}, expected {FULL} or {SLIDING}"
            )
    return tuple(
        LayerSpec(rope=sliding_rope, window=window) if kind == SLIDING else LayerSpec(rope=0)
        for kind in types
    )


def layers_after(config: ConfigReader, count: int) -> tuple[LayerSpec, ...]:
    """Layers of models whose window, where it is switched on at all, begins at ``max_window_layers``."""
    if not config.boolean("use_sliding_window", False):
        return uniform_layers(count, window=None)
    window = config.integer("sliding_window", 4096)
    first = config.integer("max_window_layers", 28, minimum=0)
    types = config.words("layer_types", count) or tuple(
        SLIDING if index >= first else FULL for index in range(count)
    )
    return layers_by_type(config, types, window=window)
