"""`Model`: a model folder, loaded. Share it between threads; make a `Generator` for each conversation."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, cast

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import Backend, DecoderModel, GivesEmbeddings
from onnxgen.engine.speculation.loaded import checked_decoder
from onnxgen.engine.speculation.options import NO_SPECULATION, Speculation
from onnxgen.errors import CapabilityError, ConfigError, OptionError, TokenIdError
from onnxgen.facade.config import Config
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.model_spec import ModelSpec

if TYPE_CHECKING:
    from onnxgen.backends.ort.whole_graph import WholeGraph
    from onnxgen.engine.constraints.compiler import GrammarCompiler

_DEVICES = {
    "cuda": "CUDA",
    "nvtensorrtrtx": "NvTensorRtRtx",
    "dml": "DML",
    "webgpu": "WebGPU",
    "qnn": "QnnGpu",
    "openvino": "OpenVINO",
    "rocm": "ROCM",
}


class Model:
    """A model folder, loaded. May be used from several threads.

    Args:
        config: A `Config`, or the path of a model folder.
        runtime: How to run it; None reads ``ONNXGEN_*`` variables and the user's configuration file.
        backend: An executor that is loaded already, such as `onnxgen.backends.fake.FakeBackend`. It stays the
            caller's to close.
        draft: Likewise one that guesses tokens for it. Without ``backend``, the folder says whether there is one.
        speculation: What an engine on it will do; heads of the model's own read more of it than its logits.

    Attributes:
        draft: The executor of a smaller model, whose tokens the other one only checks; None: there is none.

    Raises:
        ConfigError: ``backend`` is a name.
        ModelNotFoundError: There is no such folder.
        ModelFileError: A file of the folder is missing or wrong.
        CapabilityError: The model needs what the backend cannot do.
        BackendError: The backend failed to load the model.
        OptionError: Model and draft have different vocabularies.
    """

    def __init__(
        self,
        config: Config | str | os.PathLike[str],
        *,
        runtime: RuntimeConfig | None = None,
        backend: Backend | None = None,
        draft: Backend | None = None,
        speculation: Speculation = NO_SPECULATION,
    ) -> None:
        if isinstance(backend, str):
            raise ConfigError(
                f"backend={backend!r} is a name, and backend= takes an executor that is loaded already; a backend is chosen "
                f"by its name with RuntimeConfig(backend={backend!r}), or ONNXGEN_BACKEND"
            )
        self._spec = (config if isinstance(config, Config) else Config(config)).spec
        self._runtime = runtime or _runtime_from_environment()
        self._owned = backend is None
        with ExitStack() as loaded:
            decoder = checked_decoder(self._spec, speculation)
            self._backend = backend or _load_backend(decoder, self._runtime)
            if self._owned:
                loaded.callback(self._backend.close)
            self.draft = draft
            if self._owned and draft is None and self._spec.draft is not None:
                self.draft = _load_backend(self._spec.draft, self._runtime)
                loaded.callback(self.draft.close)
            if self.draft is not None and self.draft.vocab_size != self._backend.vocab_size:
                raise OptionError(
                    f"{self._spec.folder}: the draft has logits of {self.draft.vocab_size} tokens, the model of "
                    f"{self._backend.vocab_size}; one can only check tokens of the other if they share a vocabulary"
                )
            self._release = loaded.pop_all().close
        self._grammars: GrammarCompiler | None = None
        self._whole: dict[frozenset[str], WholeGraph] = {}
        self._lock = threading.Lock()

    @property
    def spec(self) -> ModelSpec:
        """What the folder means."""
        return self._spec

    @property
    def runtime(self) -> RuntimeConfig:
        """How it is run."""
        return self._runtime

    @property
    def backend(self) -> Backend:
        """The executor."""
        return self._backend

    @property
    def grammars(self) -> GrammarCompiler:
        """Makes grammars ready for this model's tokenizer; what it made is kept for all.

        Raises:
            TokenizerError: The folder has no tokenizer that grammars could be read with.
        """
        with self._lock:
            if self._grammars is None:
                from onnxgen.engine.constraints.compiler import GrammarCompiler
                from onnxgen.preprocess.tokenizer import Tokenizer

                tokenizer = Tokenizer.from_folder(
                    self._spec.tokenizer_dir, model_vocab_size=self._spec.vocab_size
                )
                self._grammars = GrammarCompiler(
                    tokenizer, vocab_size=self._spec.vocab_size, eos_ids=self._spec.tokens.eos
                )
            return self._grammars

    @property
    def device_type(self) -> str:
        """The kind of device that the first execution provider stands for, ``CPU`` without one."""
        names = self._runtime.providers or tuple(p.name for p in self._spec.decoder.providers)
        first = names[0].lower().removesuffix("executionprovider") if names else "cpu"
        return _DEVICES.get(first, first.upper())

    def token_embeddings(self, ids: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """What the decoder's first layer reads for token ids, scaled as the model scales it.

        Rows of it, and others of the same kind, can stand in a prompt in place of ids.

        Args:
            ids: Token ids ``[n]``.

        Returns:
            float32 ``[n, width]``.

        Raises:
            TokenIdError: An id is no integer, or outside the vocabulary.
            CapabilityError: The model does not look tokens up in one table.
        """
        array = np.asarray(ids)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise TokenIdError(f"token ids must be a list of integers, got {ids!r:.60}")
        if self._backend.capabilities.embedding_size is None:
            raise CapabilityError(
                f"{self._spec.folder} does not look tokens up in one table: no row stands for a token"
            )
        return cast("GivesEmbeddings", self._backend).token_embeddings(array.astype(np.int64))

    def check_inputs(self) -> None:
        """Refuse a model whose graph has inputs that only its user knows.

        Raises:
            CapabilityError: With their names.
        """
        required = sorted(self._backend.capabilities.required_inputs)
        if required:
            raise CapabilityError(
                f"{self._spec.folder}: the graph has inputs that nobody here knows: {', '.join(required)}; only a Generator "
                "runs it, when it was given values for them with set_model_input"
            )

    def whole_graph(self, given: frozenset[str]) -> WholeGraph:
        """The folder's own graph in a session of ONNX Runtime, beside the executor's; made once.

        Args:
            given: Names of inputs that its runs are given values for, beside those of every decoder.

        Raises:
            CapabilityError: The executor was given by the caller, or the graph cannot be run beside it.
            BackendError: ONNX Runtime refuses it.
        """
        if not self._owned:
            raise CapabilityError(
                f"{self._spec.folder} is run by an executor that was given to it, which gives logits and hidden_states only"
            )
        with self._lock:
            if given not in self._whole:
                from onnxgen.backends.ort.whole_graph import WholeGraph

                self._whole[given] = WholeGraph(self._spec.decoder, self._runtime, given=given)
            return self._whole[given]

    def create_multimodal_processor(self) -> NoReturn:
        """Not supported: raises `CapabilityError`."""
        raise CapabilityError(
            f"model type {self.type!r} is run as text only: this version has no image or audio processors; "
            "use Tokenizer(model)"
        )

    def create_streaming_processor(self) -> NoReturn:
        """Not supported: raises `CapabilityError`."""
        raise CapabilityError(
            f"model type {self.type!r} is run as text only: this version has no speech processors; "
            "use Tokenizer(model)"
        )

    def close(self) -> None:
        """Release the model. Calling it twice is harmless; generators made from it raise afterwards."""
        self._whole.clear()
        if self._grammars is not None:
            self._grammars.close()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # last, because the name hides the builtin that annotations above need
    @property
    def type(self) -> str:
        """The folder's ``model.type``."""
        return self._spec.model_type


def _runtime_from_environment() -> RuntimeConfig:
    from onnxgen.foundations.config_sources import load_runtime_config

    return load_runtime_config().config


def _load_backend(decoder: DecoderModel, runtime: RuntimeConfig) -> Backend:
    from onnxgen.backends import load_backend
    from onnxgen.graph.cpu.choosing_kernels import prepare_choosing

    backend = load_backend(decoder, runtime)
    prepare_choosing()  # now, where progress is shown, and not at the first token
    return backend
