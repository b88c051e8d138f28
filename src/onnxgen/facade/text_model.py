"""`TextModel`: a loaded model with its text side and an engine, for everything that answers with it."""

from __future__ import annotations

import time
from pathlib import Path

from onnxgen.backends.base import Backend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.of_model import engine_of
from onnxgen.engine.shared import SharedEngine
from onnxgen.facade.answer import Clock
from onnxgen.facade.model import Model
from onnxgen.facade.model_text import ModelText
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.scheduler.config import SchedulerConfig


class TextModel:
    """A loaded model with its text side and an engine. May be used from several threads.

    Args:
        folder: A model folder.
        config: How to run it.
        engine: How requests share it.
        backend: An executor that is loaded already; it stays the caller's to close.
        clock: Seconds from any beginning.

    Attributes:
        text: Prompts into requests, tokens into answers.
        model: The model.
        engine: Made when it is first asked for something.

    Raises:
        ModelFileError: A file of the folder is missing or wrong.
        BackendError: The backend failed to load the model.
    """

    def __init__(
        self,
        folder: Path,
        *,
        config: RuntimeConfig,
        engine: EngineConfig | None = None,
        backend: Backend | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        started = clock()
        self.text = ModelText(folder, clock=clock)  # before the weights: a broken tokenizer is told at once
        self.model = Model(self.text.config, runtime=config, backend=backend)
        self.engine = SharedEngine(lambda: self.make_engine(engine or default_engine_config(config)))
        self.text.load_s = clock() - started

    def make_engine(self, config: EngineConfig) -> EngineCore:
        """An engine on the model's backend; the caller closes it."""
        return engine_of(self.text.spec, self.model.backend, config)

    def close(self) -> None:
        """Release engine and model. Calling it twice is harmless."""
        self.engine.close()
        self.model.close()


def default_engine_config(config: RuntimeConfig) -> EngineConfig:
    """How requests share a model where nobody says."""
    chunk, max_seqs = config.prefill_chunk_tokens, SchedulerConfig().max_seqs
    return EngineConfig(scheduler=SchedulerConfig(chunk_tokens=chunk, max_step_tokens=max(chunk, max_seqs)))
