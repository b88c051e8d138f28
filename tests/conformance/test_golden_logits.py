"""Built folders against transformers: the same logits and greedy tokens for every family and feature."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from backend_runs import open_folder
from checkpoints import CHECKPOINTS, tensors, write_checkpoint
from golden_data import golden_cases
from onnxgen.builder import BuildOptions, build
from onnxgen.builder.quantize import dequantize_blocks, quantize_blocks
from onnxgen.errors import BuildError

EXACT = 1e-4
"""Largest logit error of a float32 build, relative to the spread of the logits."""

LIMITS = {"ort": EXACT, "native": 1e-3}
"""The same by backend: the native one keeps keys and values in 16 bits."""

on_each_backend = pytest.mark.parametrize("backend", LIMITS)

REFUSED = "llama-head20"
NAMES = [name for name in CHECKPOINTS if name != REFUSED]

Build = Callable[[str, BuildOptions], Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Build a checkpoint once for each set of options."""
    folders: dict[tuple[str, BuildOptions], Path] = {}

    def get(name: str, options: BuildOptions) -> Path:
        if (name, options) not in folders:
            work = tmp_path_factory.mktemp(name)
            source = write_checkpoint(CHECKPOINTS[name], work / "checkpoint")
            build(source, work / "model", options=options)
            folders[name, options] = work / "model"
        return folders[name, options]

    return get


FP32 = BuildOptions(precision="fp32")


@on_each_backend
@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_at_once_has_the_golden_logits(built: Build, name: str, backend: str):
    with open_folder(built(name, FP32), backend=backend) as run:
        for case in golden_cases(CHECKPOINTS[name]):
            assert case.relative_error(run.logits(case.prompt), case.logits) < LIMITS[backend]


@on_each_backend
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chunk", [1, 3, 8, 13])
def test_chunks_and_single_tokens_have_the_golden_logits(built: Build, name: str, chunk: int, backend: str):
    checkpoint = CHECKPOINTS[name]
    with open_folder(built(name, FP32), backend=backend) as run:
        switch = run.rope_switch_length
        for case in golden_cases(checkpoint):
            logits = run.logits(case.prompt, chunk=chunk)
            first = _first_comparable(len(case.prompt), chunk, switch)
            assert case.relative_error(logits[first:], case.logits[first:]) < LIMITS[backend]


def _first_comparable(length: int, chunk: int, switch: int | None) -> int:
    """The first row that does not depend on how the prompt was cut: with longrope, rows of chunks that ended
    before the switch saw other frequencies than those of a pass over everything."""
    if switch is None or length <= switch:
        return 0
    crossing = (switch // chunk) * chunk
    return crossing


@on_each_backend
@pytest.mark.parametrize("name", NAMES)
def test_greedy_tokens_are_the_golden_ones(built: Build, name: str, backend: str):
    with open_folder(built(name, FP32), backend=backend) as run:
        for case in golden_cases(CHECKPOINTS[name]):
            tokens, logits = run.greedy(case.prompt, len(case.greedy))
            assert tokens == case.greedy
            assert case.relative_error(logits, case.greedy_logits) < LIMITS[backend]


def test_heads_that_attention_has_no_kernel_for_are_refused(tmp_path: Path):
    source = write_checkpoint(CHECKPOINTS[REFUSED], tmp_path / "checkpoint")
    with pytest.raises(BuildError, match="head_dim is 20"):
        build(source, tmp_path / "model", options=FP32)
    assert not (tmp_path / "model").exists()


WEIGHT_ERROR = {
    # relative root mean square of rounding: uniform values of magnitude A have rms A/sqrt(3), a step of
    # A/8 or A/128 an error of step/sqrt(12); int8 activations of 32 values add about 0.5 percent
    "int4": sqrt((1 / 16) ** 2 + 0.005**2),
    "int8": sqrt((1 / 256) ** 2 + 0.005**2),
    # half a unit in the last place of 11 and 8 significant bits
    "fp16": 2.0**-11 / sqrt(3),
    "bf16": 2.0**-8 / sqrt(3),
}
AMPLIFICATION = 3.0
"""Softmax and norms make errors grow."""
UNRELATED = sqrt(2)
"""The error of logits that have nothing to do with the right ones."""


def _rounding_bound(precision: str, layers: int) -> float:
    """Largest root mean square error of the logits: errors of independent matrices add in squares."""
    matrices_in_a_row = 4 * layers + 2
    return min(AMPLIFICATION * sqrt(matrices_in_a_row) * WEIGHT_ERROR[precision], UNRELATED / 2)


@on_each_backend
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("precision", WEIGHT_ERROR)
def test_rounded_weights_keep_the_error_that_rounding_explains(
    built: Build, name: str, precision: str, backend: str
):
    checkpoint = CHECKPOINTS[name]
    with open_folder(built(name, BuildOptions.from_extra(precision)), backend=backend) as run:
        bound = _rounding_bound(precision, checkpoint.config["num_hidden_layers"])
        for case in golden_cases(checkpoint):
            logits = run.logits(case.prompt)
            assert np.isfinite(logits).all()
            assert case.rms_error(logits) < bound


@on_each_backend
@pytest.mark.parametrize("name", ["llama-untied", "qwen3", "phi3", "gemma3"])
@pytest.mark.parametrize(("bits", "symmetric"), [(4, True), (4, False), (8, True)])
def test_a_quantized_build_computes_with_its_dequantized_weights(
    built: Build, tmp_path: Path, name: str, bits: int, *, symmetric: bool, backend: str
):
    options = BuildOptions(
        precision="int4" if bits == 4 else "int8",
        block_size=16,
        accuracy_level=0,
        symmetric=symmetric,
        head_bits=bits if bits == 4 else 8,
    )
    checkpoint = CHECKPOINTS[name]
    rounded = {
        key: dequantize_blocks(quantize_blocks(value, bits=bits, block_size=16, symmetric=symmetric))
        if value.ndim == 2
        else value
        for key, value in tensors(checkpoint).items()
    }
    source = write_checkpoint(checkpoint, tmp_path / "checkpoint", weights=rounded)
    build(source, tmp_path / "model", options=FP32)
    with (
        open_folder(built(name, options), backend=backend) as quantized,
        open_folder(tmp_path / "model", backend=backend) as exact,
    ):
        for case in golden_cases(checkpoint):
            wanted = exact.logits(case.prompt)
            assert case.rms_error(wanted) > 1e-3, "quantization changed nothing, so this shows nothing"
            assert case.relative_error(quantized.logits(case.prompt), wanted) < LIMITS[backend]
