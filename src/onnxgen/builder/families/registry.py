"""Which family reads which architecture."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Protocol

from onnxgen.builder.families.reading import ConfigReader
from onnxgen.builder.spec import DecoderSpec
from onnxgen.builder.weights import WeightSource
from onnxgen.errors import CheckpointError, UnsupportedArchitectureError
from onnxgen.foundations.suggest import did_you_mean


class Family(Protocol):
    """Reads a configuration of one architecture."""

    def __call__(self, config: ConfigReader, names: AbstractSet[str], /) -> DecoderSpec:
        """Say what the decoder computes. ``names`` are the tensors of the checkpoint."""
        ...


_FAMILIES: dict[str, Family] = {}


def family(*architectures: str) -> Callable[[Family], Family]:
    """Register a function for the architectures of that name in ``config.json``."""

    def register(function: Family) -> Family:
        for name in architectures:
            assert name not in _FAMILIES, f"{name} is registered twice"
            _FAMILIES[name] = function
        return function

    return register


def known_architectures() -> tuple[str, ...]:
    """Names of all architectures that can be built, sorted."""
    return tuple(sorted(_FAMILIES))


def decoder_spec(source: WeightSource) -> DecoderSpec:
    """What the decoder of a checkpoint computes.

    Raises:
        UnsupportedArchitectureError: No family knows its architecture.
        CheckpointError: The configuration lacks a value or contradicts itself.
    """
    config = ConfigReader(source.config, where=str(source.path))
    architectures = source.config.get("architectures")
    if not isinstance(architectures, list) or not architectures:
        raise CheckpointError(
            f"{source.path}: the configuration names no architecture "
            f"('architectures' is {architectures!r}); known: {', '.join(known_architectures())}"
        )
    name = str(architectures[0])  # pyright: ignore[reportUnknownArgumentType]
    if name not in _FAMILIES:
        raise UnsupportedArchitectureError(
            f"{source.path}: architecture {name!r} is not supported{did_you_mean(name, _FAMILIES)} "
            f"(known: {', '.join(known_architectures())})"
        )
    return _FAMILIES[name](config, source.names)
