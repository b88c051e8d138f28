"""Rotary embeddings of a configuration, in the old form (``rope_scaling``) and the new (``rope_parameters``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from onnxgen.builder.families.reading import ConfigReader
from onnxgen.builder.spec import Llama3Scaling, LongRopeScaling, RopeKind, RopeSpec, YarnScaling
from onnxgen.errors import CheckpointError
from onnxgen.foundations.suggest import did_you_mean

FACTORS_TENSOR = "rope_freqs.weight"
"""Frequency divisors that some GGUF files store instead of the numbers they were made from."""


def read_rope(
    config: ConfigReader,
    *,
    head_dim: int,
    theta: float = 10000.0,
    theta_key: str = "rope_theta",
    layer_type: str | None = None,
    scaled: bool = True,
    aliases: Mapping[str, str] | None = None,
    original_default: int | None = None,
    names: AbstractSet[str] = frozenset(),
) -> RopeSpec:
    """Read one rotary embedding.

    Args:
        config: The configuration.
        head_dim: Width of a head.
        theta: Base where the configuration has none.
        theta_key: Key of the base in the old form.
        layer_type: Which of the embeddings, where ``rope_parameters`` has one for each layer type.
        scaled: Whether ``rope_scaling`` of the old form applies to this embedding.
        aliases: Further names of rope types, to the known ones.
        original_default: Original context where the configuration has none; None takes the context.
        names: Tensors of the checkpoint.

    Raises:
        CheckpointError: The type is unknown or one of its numbers missing or wrong.
    """
    parameters = _parameters(config, layer_type=layer_type, scaled=scaled)
    base = parameters.optional_number("rope_theta") or config.optional_number(theta_key) or theta
    partial = (
        parameters.optional_number("partial_rotary_factor")
        or config.optional_number("partial_rotary_factor")
        or 1.0
    )
    rotary_dim = int(head_dim * partial)
    if partial > 1 or rotary_dim % 2 or not rotary_dim:
        raise CheckpointError(
            f"{config.where}: partial_rotary_factor {partial:g} of head_dim {head_dim} "
            f"rotates {rotary_dim} dimensions, expected an even number up to {head_dim}"
        )
    kind = _kind(parameters, {"su": "longrope", **(aliases or {})})
    context = config.integer("max_position_embeddings")
    original = (
        config.optional_integer("original_max_position_embeddings")
        or parameters.optional_integer("original_max_position_embeddings")
        or original_default
        or context
    )
    match kind:
        case RopeKind.DEFAULT:
            factors = FACTORS_TENSOR if FACTORS_TENSOR in names else None
            return RopeSpec(kind, base, rotary_dim, factors_tensor=factors)
        case RopeKind.DYNAMIC:
            # The base grows only beyond max_position_embeddings, and a folder's context ends there.
            return RopeSpec(kind, base, rotary_dim)
        case RopeKind.LINEAR:
            return RopeSpec(kind, base, rotary_dim, factor=parameters.number("factor"))
        case RopeKind.LLAMA3:
            numbers = Llama3Scaling(
                original, parameters.number("low_freq_factor"), parameters.number("high_freq_factor")
            )
            if numbers.low_freq_factor >= numbers.high_freq_factor:
                raise CheckpointError(
                    f"{parameters.where}: low_freq_factor {numbers.low_freq_factor:g} must be below "
                    f"high_freq_factor {numbers.high_freq_factor:g}"
                )
            return RopeSpec(kind, base, rotary_dim, factor=parameters.number("factor"), llama3=numbers)
        case RopeKind.YARN:
            return _yarn(parameters, base, rotary_dim, context=context, original=original)
        case RopeKind.LONGROPE:
            return _longrope(parameters, base, rotary_dim, context=context, original=original)


def _parameters(config: ConfigReader, *, layer_type: str | None, scaled: bool) -> ConfigReader:
    empty = ConfigReader({}, where=config.where)
    parameters = config.section("rope_parameters")
    if parameters is None:
        return (config.section("rope_scaling") if scaled else None) or empty
    nested = [key for key, value in parameters.values.items() if isinstance(value, Mapping)]
    if not nested:
        return parameters
    if layer_type is None:
        # All layers are of one type; which one it is called does not matter when there is no choice.
        if len(nested) > 1 and any(parameters.values[key] != parameters.values[nested[0]] for key in nested):
            raise CheckpointError(
                f"{parameters.where} differs by layer type ({', '.join(nested)}), "
                "which this architecture does not have"
            )
        return parameters.section(nested[0]) or empty
    return parameters.section(layer_type) or empty


def _kind(parameters: ConfigReader, aliases: Mapping[str, str]) -> RopeKind:
    name = parameters.values.get("rope_type") or parameters.values.get("type") or "default"
    known = [kind.value for kind in RopeKind]
    name = aliases.get(str(name), str(name))
    if name not in known:
        raise CheckpointError(
            f"{parameters.where}: rope type {name!r} is not supported{did_you_mean(name, known)} "
            f"(known: {', '.join(known)})"
        )
    return RopeKind(name)


def _yarn(
    parameters: ConfigReader, theta: float, rotary_dim: int, *, context: int, original: int
) -> RopeSpec:
    factor = parameters.optional_number("factor") or context / original
    mscale = parameters.optional_number("mscale")
    mscale_all = parameters.optional_number("mscale_all_dim")
    magnitude = parameters.optional_number("attention_factor")
    if magnitude is None:
        magnitude = _yarn_magnitude(factor, 1.0)
        if mscale and mscale_all:
            magnitude = _yarn_magnitude(factor, mscale) / _yarn_magnitude(factor, mscale_all)
    scaling = YarnScaling(
        original_context=original,
        beta_fast=parameters.number("beta_fast", 32.0),
        beta_slow=parameters.number("beta_slow", 1.0),
        truncate=parameters.boolean("truncate", True),
    )
    return RopeSpec(RopeKind.YARN, theta, rotary_dim, factor=factor, magnitude=magnitude, yarn=scaling)


def _yarn_magnitude(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _longrope(
    parameters: ConfigReader, theta: float, rotary_dim: int, *, context: int, original: int
) -> RopeSpec:
    factor = parameters.optional_number("factor") or context / original
    magnitude = parameters.optional_number("attention_factor")
    if magnitude is None:
        magnitude = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    scaling = LongRopeScaling(
        original_context=original,
        short_factors=parameters.numbers("short_factor", rotary_dim // 2),
        long_factors=parameters.numbers("long_factor", rotary_dim // 2),
        short_magnitude=parameters.optional_number("short_mscale") or magnitude,
        long_magnitude=parameters.optional_number("long_mscale") or magnitude,
    )
    return RopeSpec(RopeKind.LONGROPE, theta, rotary_dim, longrope=scaling)
