"""Where vectors of texts come from: an encoder's graph, or the hidden states of a decoder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from onnxgen.backends.base import Backend
from onnxgen.errors import CapabilityError, OptionError
from onnxgen.facade.decoder_states import pooled_states
from onnxgen.facade.encoder_graph import EncoderGraph, find_encoder, longest_of
from onnxgen.facade.model import Model
from onnxgen.facade.pooling import Float32Array, Pooling, pool
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.folder import is_model_folder

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


class VectorSource(Protocol):
    """Token ids to pooled vectors."""

    @property
    def folder(self) -> Path:
        """The model's folder."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Of the model."""
        ...

    @property
    def max_length(self) -> int | None:
        """The longest text in tokens that the model takes; None where nothing says so."""
        ...

    def choose_pooling(self, asked: Pooling | None, said: Pooling | None) -> Pooling | None:
        """The pooling to use, by what the caller asked for and what the folder says; None: the graph pools."""
        ...

    def vectors(self, texts: Sequence[list[int]], pooling: Pooling | None) -> Float32Array:
        """Pooled vectors of texts, float32 ``[texts, dim]``."""
        ...

    def close(self) -> None:
        """Release what was loaded here."""
        ...


def open_source(
    model: str | os.PathLike[str] | Model, config: RuntimeConfig | None, backend: Backend | None
) -> VectorSource:
    """Open an encoder's folder, or anything that is a decoder."""
    from onnxgen.facade.resolve import resolve_model
    from onnxgen.foundations.config_sources import load_runtime_config

    if isinstance(model, Model):
        return DecoderSource(model, owned=False)
    config = load_runtime_config().config if config is None else config
    path = Path(model).expanduser()
    if backend is None and path.is_dir() and not is_model_folder(path):
        graph = find_encoder(path)
        if graph is not None:
            return EncoderSource(path, graph, config)
    folder = resolve_model(model, config=config)
    return DecoderSource(Model(folder, runtime=config, backend=backend), owned=True)


class EncoderSource:
    """An encoder's folder."""

    def __init__(self, folder: Path, graph: Path, config: RuntimeConfig) -> None:
        from onnxgen.preprocess.tokenizer import Tokenizer

        self.folder = folder
        self.tokenizer: Tokenizer = Tokenizer.from_folder(folder)
        self.max_length: int | None = longest_of(folder)
        self._graph = EncoderGraph(graph, config)
        self._pad = self.tokenizer.token_to_id(self.tokenizer.pad_token or "") or 0

    def choose_pooling(self, asked: Pooling | None, said: Pooling | None) -> Pooling | None:
        """What was asked for, else what the folder says, else the mean.

        Raises:
            OptionError: The graph pools by itself, and a pooling was asked for.
        """
        if not self._graph.gives_vectors:
            return asked or said or "mean"
        if asked is not None:
            raise OptionError(
                f"pooling {asked!r} was asked for, but the graph of {self.folder} pools by itself; leave it at 'auto'"
            )
        return None

    def vectors(self, texts: Sequence[list[int]], pooling: Pooling | None) -> Float32Array:
        """Run texts as one batch, padded to the longest."""
        shape = len(texts), max(map(len, texts))
        ids, mask = np.full(shape, self._pad, np.int64), np.zeros(shape, np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)], mask[row, : len(text)] = text, 1
        result = self._graph.run(ids, mask)
        return result if pooling is None else pool(result, mask, pooling)

    def close(self) -> None:
        """Nothing is held open."""


class DecoderSource:
    """A decoder and its hidden states."""

    def __init__(self, model: Model, *, owned: bool) -> None:
        from onnxgen.preprocess.tokenizer import Tokenizer

        spec = model.spec
        model.check_inputs()
        if not model.backend.capabilities.hidden_states:
            raise CapabilityError(
                f"{spec.folder} gives no hidden states: its graph has no such output, and nothing in it looks like a head"
            )
        self.folder = spec.folder
        self.tokenizer: Tokenizer = Tokenizer.from_folder(
            spec.tokenizer_dir, model_vocab_size=spec.vocab_size
        )
        self.max_length: int | None = min(spec.context_length, model.backend.capabilities.max_context)
        self._model, self._owned = model, owned

    def choose_pooling(self, asked: Pooling | None, said: Pooling | None) -> Pooling | None:
        """What was asked for, else what the folder says, else the last token."""
        return asked or said or "last"

    def vectors(self, texts: Sequence[list[int]], pooling: Pooling | None) -> Float32Array:
        """Run texts in one step."""
        assert pooling is not None
        return pooled_states(self._model.backend, texts, pooling)

    def close(self) -> None:
        """Release the model if it was loaded here."""
        if self._owned:
            self._model.close()
