"""Build options from code and from a command line."""

from __future__ import annotations

import pytest

from onnxgen.builder import BuildOptions
from onnxgen.errors import OptionError


def test_pairs_become_typed_values() -> None:
    options = BuildOptions.from_extra(
        "int8",
        requantize=True,
        extra=["block_size=128", "symmetric=false", "io_dtype = float16", "num_layers=2"],
    )
    assert options == BuildOptions(
        "int8", block_size=128, symmetric=False, requantize=True, io_dtype="float16", num_layers=2
    )


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["blocksize=32"], "unknown build option 'blocksize'; did you mean 'block_size'"),
        (["block_size"], "has no '='"),
        (["block_size=33"], "block_size is 33, expected one of 16, 32, 64, 128, 256"),
        (["block_size=many"], "block_size is 'many', expected a whole number"),
        (["symmetric=maybe"], "symmetric is 'maybe', expected true or false"),
        (["head_bits=4", "head_bits=8"], "'head_bits' is given twice"),
        (["head_bits=6"], "head_bits is 6"),
        (["accuracy_level=5"], "accuracy_level is 5"),
        (["io_dtype=bfloat16"], "io_dtype is 'bfloat16'"),
        (["num_layers=0"], "num_layers is 0, expected at least 1"),
        (["context_length=-5"], "context_length is -5"),
    ],
)
def test_wrong_pairs_say_what_is_wrong(extra: list[str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        BuildOptions.from_extra("int4", extra=extra)
    assert message in str(caught.value)


@pytest.mark.parametrize("precision", ["int3", "", "FP32"])
def test_unknown_precisions_are_refused(precision: str) -> None:
    with pytest.raises(OptionError, match="expected one of int4, int8, fp16, bf16, fp32"):
        BuildOptions.from_extra(precision)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_float16_activations_contradict_wider_weights(precision: str) -> None:
    with pytest.raises(OptionError, match=f"io_dtype=float16 contradicts precision {precision}"):
        BuildOptions(precision=precision, io_dtype="float16")
