"""`BuildOptions`: what a build may be asked for, each value checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from onnxgen.errors import OptionError
from onnxgen.foundations.suggest import did_you_mean

Precision = Literal["int4", "int8", "fp16", "bf16", "fp32"]
IoDtype = Literal["float32", "float16"]

_BLOCK_SIZES = (16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a model folder is built.

    Attributes:
        precision: ``int4`` and ``int8`` store matrices in quantized blocks; ``fp16`` and ``bf16`` store
            them in 16 bits and compute in float32; ``fp32`` stores and computes in float32.
        block_size: Neighbouring weights of a row that share a scale: 16, 32, 64, 128 or 256.
        accuracy_level: Least arithmetic of quantized matrices: 0 is the activations' own type, 1 float32,
            2 float16, 3 bfloat16, 4 int8 activations. None is 4, but 0 where blocks with float zero points
            are carried over: ONNX Runtime multiplies those in float32 whatever the level, and rounding
            the rest would only spoil their exactness.
        symmetric: Quantize around zero; otherwise each block has a zero point.
        requantize: Quantize again what a GGUF file already holds in blocks, instead of carrying it over.
        head_bits: Bits of the output head and the embedding where they are quantized: 4 or 8.
        io_dtype: Type of activations and caches. ``float16`` is for devices that compute in it.
        num_layers: Keep only this many layers, for tests; None keeps all.
        context_length: Longest sequence in tokens, at most the model's own; None takes the model's. The
            rotary tables are this long.
        include_hidden_states: Also give out ``hidden_states``, what the head makes the logits of, for runtimes that
            read outputs by name. This one finds them in any decoder.
    """

    precision: Precision = "int4"
    block_size: int = 32
    accuracy_level: int | None = None
    symmetric: bool = True
    requantize: bool = False
    head_bits: int = 8
    io_dtype: IoDtype = "float32"
    num_layers: int | None = None
    context_length: int | None = None
    include_hidden_states: bool = False

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OptionError: Naming the option, its value and what is allowed.
        """
        _one_of("precision", self.precision, get_args(Precision))
        _one_of("block_size", self.block_size, _BLOCK_SIZES)
        if self.accuracy_level is not None:
            _one_of("accuracy_level", self.accuracy_level, range(5))
        _one_of("head_bits", self.head_bits, (4, 8))
        _one_of("io_dtype", self.io_dtype, get_args(IoDtype))
        for name in ("num_layers", "context_length"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionError(f"build option {name} is {value}, expected at least 1")
        if self.io_dtype == "float16" and self.precision in ("bf16", "fp32"):
            raise OptionError(
                f"io_dtype=float16 contradicts precision {self.precision}: "
                "activations in float16 need precision fp16, int8 or int4"
            )

    @property
    def bits(self) -> int | None:
        """Bits of quantized matrices; None where matrices stay in floating point."""
        return {"int4": 4, "int8": 8}.get(self.precision)

    @classmethod
    def from_extra(
        cls, precision: str = "int4", *, requantize: bool = False, extra: Iterable[str] = ()
    ) -> BuildOptions:
        """Options from a command line: a precision and pairs ``key=value``.

        Raises:
            OptionError: A pair is malformed, repeated, its key unknown, or its value not allowed.
        """
        values: dict[str, Any] = {}
        for pair in extra:
            key, separator, text = pair.partition("=")
            key = key.strip()
            if not separator:
                raise OptionError(f"--extra {pair!r} has no '='; write it as key=value")
            if key not in _PARSERS:
                known = ", ".join(sorted(_PARSERS))
                raise OptionError(
                    f"unknown build option {key!r}{did_you_mean(key, _PARSERS)} (known: {known})"
                )
            if key in values:
                raise OptionError(f"build option {key!r} is given twice")
            values[key] = _PARSERS[key](key, text.strip())
        _one_of("precision", precision, get_args(Precision))
        return replace(cls(), precision=precision, requantize=requantize, **values)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """The options as plain values, for the manifest."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _one_of(name: str, value: object, allowed: Iterable[object]) -> None:
    choices = list(allowed)
    if value not in choices or isinstance(value, bool):
        listed = ", ".join(str(choice) for choice in choices)
        hint = did_you_mean(str(value), [str(choice) for choice in choices])
        raise OptionError(f"build option {name} is {value!r}, expected one of {listed}{hint}")


def _integer(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"build option {key} is {text!r}, expected a whole number") from None


def _boolean(key: str, text: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise OptionError(f"build option {key} is {text!r}, expected true or false")
    return words[text.lower()]


def _word(key: str, text: str) -> str:
    del key
    return text


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "block_size": _integer,
    "accuracy_level": _integer,
    "symmetric": _boolean,
    "head_bits": _integer,
    "io_dtype": _word,
    "num_layers": _integer,
    "context_length": _integer,
    "include_hidden_states": _boolean,
}
