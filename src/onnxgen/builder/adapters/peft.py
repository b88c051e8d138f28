"""LoRA adapters as the PEFT library saves them: ``adapter_config.json`` and ``adapter_model.safetensors``.

A weight is called ``base_model.model.<module>.lora_A.weight``, of ``[rank, in_features]``, or ``lora_B``, of
``[out_features, rank]``. What they add is scaled by ``lora_alpha / rank``, or, with ``use_rslora``, by
``lora_alpha / sqrt(rank)`` (arXiv:2312.03732); ``rank_pattern`` and ``alpha_pattern`` have other numbers for some
modules. The weights themselves say which modules are changed, so ``target_modules`` need not be read, and whether the
base layer stores its matrix transposed (``fan_in_fan_out``) changes nothing about the product.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from onnxgen.backends.adapters import Adapter, LoraPair
from onnxgen.builder.sources.safetensors_header import StoredTensor, read_header
from onnxgen.errors import CapabilityError, CheckpointError
from onnxgen.foundations.files import confined, is_present, read_json_object

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"

_PICKLE = "adapter_model.bin"
_DTYPES: Mapping[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
_NAME = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<side>[AB])(?:\.default)?\.weight")
_MAX_RANK = 4096
_REFUSED: Mapping[str, str] = {
    "use_dora": "weights are decomposed (DoRA)",
    "modules_to_save": "whole modules are replaced (modules_to_save)",
    "lora_bias": "biases are added to B (lora_bias)",
    "trainable_token_indices": "embeddings of tokens are replaced (trainable_token_indices)",
    "megatron_config": "it is for parallel layers of Megatron",
    "layer_replication": "layers are repeated (layer_replication)",
    "alora_invocation_tokens": "it begins in the middle of a prompt (aLoRA)",
    "use_qalora": "inputs are pooled (QALoRA)",
    "arrow_config": "experts are routed (Arrow)",
}
_CHANGES_BASE = ("pissa", "olora", "corda", "loftq")
"""Initializations that take the adapter's first value off the base model's weights."""

_QUANTIFIED_GROUP = re.compile(r"\)\s*[*+{]")
_QUANTIFIER = re.compile(r"(?<!\\)[*+?{]")
_MAX_ALPHA = 1e6
_MAX_PATTERN, _MAX_QUANTIFIERS = 500, 4


def read_peft_adapter(folder: Path, name: str, *, weights: str = WEIGHTS) -> Adapter:
    """Read a PEFT folder.

    Args:
        folder: The folder.
        name: What the adapter will be called.
        weights: The file in it that holds the weights.

    Raises:
        CheckpointError: A file is missing or broken, or the two disagree.
        CapabilityError: The adapter is more than low-rank matrices.
    """
    config_file = confined(folder, CONFIG, error=CheckpointError)
    config = read_json_object(config_file, error=CheckpointError)
    _refuse(config, config_file)
    if is_present(folder / _PICKLE) and not is_present(folder / weights):
        raise CheckpointError(
            f"{folder} has its weights in {_PICKLE}, a pickle, which may run code when it is read; save the adapter as "
            f"{WEIGHTS}"
        )
    file = confined(folder, weights, error=CheckpointError)
    sides = _by_module(read_header(file), file)
    pairs: dict[str, LoraPair] = {}
    digest = hashlib.sha256()
    for module, tensors in sorted(sides.items()):
        missing = {"A", "B"} - tensors.keys()
        if missing:
            raise CheckpointError(f"{file}: module {module} has no lora_{missing.pop()}")
        a, b = (_load(tensors[side], module, side) for side in "AB")
        scale = _scale(config, config_file, module, rank=a.shape[0])
        if b.shape[1] != a.shape[0]:
            raise CheckpointError(
                f"{file}: lora_A of {module} is {list(a.shape)} and lora_B {list(b.shape)}; their ranks differ"
            )
        pairs[module] = LoraPair(a, b * np.float32(scale))
        digest.update(repr((module, a.shape, b.shape)).encode())
        digest.update(pairs[module].a.tobytes())
        digest.update(pairs[module].b.tobytes())
    if not pairs:
        raise CheckpointError(f"{file} holds no weights")
    return Adapter(name, source=str(folder), digest=digest.hexdigest(), pairs=pairs)


def _refuse(config: Mapping[str, Any], file: Path) -> None:
    kind = config.get("peft_type")
    if kind != "LORA":
        raise CapabilityError(f"{file}: peft_type is {kind!r}; only LORA adapters can be applied")
    for key, why in _REFUSED.items():
        if config.get(key):
            raise CapabilityError(
                f"{file}: {why}, which cannot be applied at run time; merge the adapter into its base model and "
                "build that"
            )
    start = str(config.get("init_lora_weights", True)).lower()
    if start.startswith(_CHANGES_BASE):
        raise CapabilityError(
            f"{file}: it was initialized by {start}, which changes the base model too; convert it to a plain LoRA "
            "adapter when it is saved, or merge it into its base model and build that"
        )
    if config.get("bias", "none") != "none":
        raise CapabilityError(
            f"{file}: biases were trained too (bias={config['bias']!r}), which cannot be applied at run time; merge "
            "the adapter into its base model and build that"
        )


def _by_module(header: Mapping[str, StoredTensor], file: Path) -> dict[str, dict[str, StoredTensor]]:
    sides: dict[str, dict[str, StoredTensor]] = {}
    for name, tensor in header.items():
        match = _NAME.fullmatch(name)
        if match is None:
            raise CapabilityError(f"{file}: {_why_not(name)}")
        own = sides.setdefault(match["module"], {})
        if match["side"] in own:
            raise CheckpointError(f"{file}: lora_{match['side']} of {match['module']} is there twice")
        own[match["side"]] = tensor
    return sides


def _why_not(name: str) -> str:
    if "lora_embedding" in name:
        return f"tensor {name!r} changes an embedding, which cannot be applied at run time"
    if "lora_magnitude_vector" in name:
        return f"tensor {name!r} belongs to decomposed weights (DoRA), which cannot be applied at run time"
    return (
        f"tensor {name!r} is neither lora_A nor lora_B of a linear layer; merge the adapter into its base model and "
        "build that"
    )


def _load(tensor: StoredTensor, module: str, side: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise CheckpointError(
            f"{tensor.file}: lora_{side} of {module} is stored as {tensor.dtype}; types {', '.join(_DTYPES)} can be read"
        )
    if len(tensor.shape) != 2 or 0 in tensor.shape:
        raise CheckpointError(
            f"{tensor.file}: lora_{side} of {module} has shape {list(tensor.shape)}, expected a matrix of a linear layer"
        )
    values = np.fromfile(tensor.file, dtype, count=tensor.num_bytes // dtype.itemsize, offset=tensor.offset)
    if values.size != math.prod(tensor.shape):
        raise CheckpointError(
            f"{tensor.file}: lora_{side} of {module} has {values.size} numbers for shape {list(tensor.shape)}"
        )
    array = values.astype(np.float32).reshape(tensor.shape)
    if not np.isfinite(array).all():
        raise CheckpointError(f"{tensor.file}: lora_{side} of {module} holds NaN or infinity")
    return array


def _scale(config: Mapping[str, Any], file: Path, module: str, *, rank: int) -> float:
    said = _number(config, file, module, "r", "rank_pattern")
    if said != rank or not 0 < rank <= _MAX_RANK:
        raise CheckpointError(f"{file} says rank {said:g} for {module}, its lora_A has {rank} rows")
    alpha = _number(config, file, module, "lora_alpha", "alpha_pattern")
    if abs(alpha) > _MAX_ALPHA:
        raise CheckpointError(
            f"{file}: lora_alpha is {alpha:g} for {module}, expected at most {_MAX_ALPHA:g}"
        )
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _number(config: Mapping[str, Any], file: Path, module: str, key: str, pattern_key: str) -> float:
    """The number for a module: that of the first pattern that fits the end of its name, or that of all."""
    value = config.get(key)
    patterns = config.get(pattern_key) or {}
    if not isinstance(patterns, dict):
        raise CheckpointError(f"{file}: {pattern_key} must map names of modules to numbers")
    for pattern, own in patterns.items():
        if _fits(pattern, module, file, pattern_key):
            value = own
            break
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CheckpointError(f"{file}: {key} is {value!r}, expected a number")
    return float(value)


def _fits(pattern: str, module: str, file: Path, key: str) -> bool:
    # a repeated group, or many repetitions in a row, may take longer than the universe to match
    if (
        len(pattern) > _MAX_PATTERN
        or _QUANTIFIED_GROUP.search(pattern)
        or len(_QUANTIFIER.findall(pattern)) > _MAX_QUANTIFIERS
    ):
        raise CheckpointError(
            f"{file}: {key} has the pattern {pattern!r:.80}, which is too complex to be matched"
        )
    try:
        return re.fullmatch(rf"(?:.*\.)?(?:{pattern})", module) is not None
    except re.error as cause:
        raise CheckpointError(f"{file}: {key} has {pattern!r}, which is no pattern: {cause}") from cause
