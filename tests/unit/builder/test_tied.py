"""Tied embeddings: configuration and weights must agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from checkpoints import CHECKPOINTS
from memory_source import MemorySource, random_source
from onnxgen.builder import BuildOptions, build
from onnxgen.errors import BuildError

_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"


def _source(path: Path, *, tied: bool | None, head: str) -> MemorySource:
    config = {**CHECKPOINTS["llama-untied"].config, "tie_word_embeddings": tied}
    source = random_source({**config, "tie_word_embeddings": False}, path, 5)
    source.config = config
    if head == "same":
        source.tensors[_HEAD] = source.tensors[_EMBEDDING].copy()
    elif head == "absent":
        del source.tensors[_HEAD]
    return source


def _is_tied(folder: Path) -> bool:
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    head = next(node for node in graph.node if node.name.startswith("/lm_head/"))
    return any("embed_tokens" in name for name in head.input)


@pytest.mark.parametrize("precision", ["int4", "fp32", "fp16"])
@pytest.mark.parametrize(
    ("tied", "head", "expected"),
    [
        (True, "absent", True),
        (True, "same", True),
        (None, "absent", True),
        (None, "same", True),
        (None, "other", False),
        (False, "other", False),
        (False, "same", False),
    ],
)
def test_the_head_is_shared_when_it_is_the_embedding(
    precision: str, tied: bool | None, head: str, expected: bool, tmp_path: Path
) -> None:
    source = _source(tmp_path / "source", tied=tied, head=head)
    build(source, tmp_path / "model", options=BuildOptions(precision=precision))
    graph = onnx.load(tmp_path / "model" / "model.onnx", load_external_data=False).graph
    names = {value.name for value in graph.initializer}
    assert any(name.startswith("lm_head.") for name in names) is not expected
    if precision != "fp16":
        assert _is_tied(tmp_path / "model") is expected


def test_contradictions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"tie_word_embeddings is true, but 'lm_head\.weight' differs"):
        build(_source(tmp_path / "source", tied=True, head="other"), tmp_path / "model")
    with pytest.raises(BuildError, match=r"tie_word_embeddings is false, but there is no 'lm_head\.weight'"):
        build(_source(tmp_path / "source", tied=False, head="absent"), tmp_path / "model")


def test_a_head_of_another_shape_differs(tmp_path: Path) -> None:
    source = _source(tmp_path / "source", tied=True, head="other")
    source.tensors[_HEAD] = np.zeros((3, 64), np.float32)
    with pytest.raises(BuildError, match="differs"):
        build(source, tmp_path / "model")
