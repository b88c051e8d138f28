"""Scaling of rotary embeddings: GGUF's keys and factor tensors as ``rope_scaling``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.builder.gguf.keys import ArchitectureKeys, shortest
from onnxgen.builder.gguf.reader import GgufFile
from onnxgen.builder.gguf.values import load_values
from onnxgen.errors import CheckpointError

FREQUENCY_FACTORS = "rope_freqs.weight"
LONG_FACTORS = "rope_factors_long.weight"
SHORT_FACTORS = "rope_factors_short.weight"

# What every Llama 3.1 to 3.3 was released with; the file holds only the factors that follow from them.
_LLAMA3_CONTEXT, _LLAMA3_LOW, _LLAMA3_HIGH = 8192, 1.0, 4.0


def rope_config(file: GgufFile, keys: ArchitectureKeys, *, head_dim: int) -> dict[str, Any]:
    """Keys of ``config.json`` that describe the rotary embedding.

    Frequency factors that follow from Llama 3's numbers become ``rope_scaling`` of that type. Others are
    left out: they stay readable as the tensor `FREQUENCY_FACTORS`.

    Raises:
        CheckpointError: A scaling type that is not known, or one without its numbers.
    """
    theta = keys.optional_number("rope.freq_base")
    theta = 10000.0 if theta is None else theta
    if theta <= 0:
        raise CheckpointError(f"{keys.path}: {keys.architecture}.rope.freq_base is {theta}, must be above 0")
    config: dict[str, Any] = {"rope_theta": theta}
    rotary_dim = keys.optional_integer("rope.dimension_count") or head_dim
    if rotary_dim != head_dim:
        config["partial_rotary_factor"] = _fraction(rotary_dim, head_dim)
    original = keys.optional_integer("rope.scaling.original_context_length")
    if LONG_FACTORS in file.tensors or SHORT_FACTORS in file.tensors:
        original = original or keys.integer("context_length")
        config["original_max_position_embeddings"] = original
        config["rope_scaling"] = _longrope(file, keys)
        return config
    scaling = _llama3(file, theta, rotary_dim) or _by_type(keys, original)
    if scaling:
        config["rope_scaling"] = scaling
    return config


def _by_type(keys: ArchitectureKeys, original: int | None) -> dict[str, Any] | None:
    kind = keys.optional_word("rope.scaling.type")
    # Files from before there were types have a linear factor alone, some under its first name.
    factor = keys.optional_number("rope.scaling.factor") or keys.optional_number("rope.scale_linear")
    match kind or "linear":
        case "none":
            return None
        case "linear":
            return {"rope_type": "linear", "factor": factor} if factor and factor != 1 else None
        case "yarn":
            return _yarn(keys, factor, original)
        case other:
            raise CheckpointError(
                f"{keys.path}: rope scaling type {other!r} is not known (known: none, linear, yarn, and "
                "longrope and llama3 by their factor tensors)"
            )


def _yarn(keys: ArchitectureKeys, factor: float | None, original: int | None) -> dict[str, Any]:
    if factor is None:
        factor = keys.number("rope.scaling.factor")
    scaling: dict[str, Any] = {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original or keys.integer("context_length"),
    }
    for key, name in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
        value = keys.optional_number(f"rope.scaling.{name}")
        if value is not None:
            scaling[key] = value
    # The file's factor multiplies the usual one; a configuration's replaces it.
    attention = keys.optional_number("rope.scaling.attn_factor")
    if attention is not None and attention != 1 and factor > 1:
        scaling["attention_factor"] = attention * (0.1 * math.log(factor) + 1.0)
    return scaling


def _longrope(file: GgufFile, keys: ArchitectureKeys) -> dict[str, Any]:
    scaling: dict[str, Any] = {"rope_type": "longrope"}
    for key, name in (("short_factor", SHORT_FACTORS), ("long_factor", LONG_FACTORS)):
        if name not in file.tensors:
            raise CheckpointError(f"{keys.path}: tensor {name!r} is missing beside the other rope factors")
        scaling[key] = [shortest(float(value)) for value in _factors(file, name)]
    attention = keys.optional_number("rope.scaling.attn_factor")
    if attention is not None:
        scaling["attention_factor"] = attention
    return scaling


def _factors(file: GgufFile, name: str) -> npt.NDArray[np.float32]:
    factors = load_values(file, file.tensors[name]).astype(np.float32).ravel()
    if not (np.isfinite(factors) & (factors > 0)).all():
        raise CheckpointError(f"{file.path}: tensor {name!r} has factors that are not positive numbers")
    return factors


def _llama3(file: GgufFile, theta: float, rotary_dim: int) -> dict[str, Any] | None:
    if FREQUENCY_FACTORS not in file.tensors:
        return None
    factors = _factors(file, FREQUENCY_FACTORS).astype(np.float64)
    factor = float(factors.max(initial=1.0))
    if factors.size != rotary_dim // 2 or factor <= 1:
        return None
    if not np.allclose(factors, _llama3_factors(theta, rotary_dim, factor), rtol=1e-5, atol=0):
        return None
    return {
        "rope_type": "llama3",
        "factor": shortest(factor),
        "low_freq_factor": _LLAMA3_LOW,
        "high_freq_factor": _LLAMA3_HIGH,
        "original_max_position_embeddings": _LLAMA3_CONTEXT,
    }


def _llama3_factors(theta: float, rotary_dim: int, factor: float) -> npt.NDArray[np.float64]:
    """Divisors of the frequencies: 1 for short waves, ``factor`` for long ones, a ramp between."""
    waves = 2 * np.pi * theta ** (np.arange(0, rotary_dim, 2) / rotary_dim)
    ramp = (_LLAMA3_CONTEXT / waves - _LLAMA3_LOW) / (_LLAMA3_HIGH - _LLAMA3_LOW)
    ramp = np.clip(ramp, 0.0, 1.0)
    return 1 / ((1 - ramp) / factor + ramp)


def _fraction(part: int, whole: int) -> float:
    """``part / whole`` such that ``int(whole * fraction)`` is ``part`` again."""
    fraction = part / whole
    return fraction if int(whole * fraction) == part else math.nextafter(fraction, math.inf)
