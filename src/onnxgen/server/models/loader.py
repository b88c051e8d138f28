"""`ModelLoader`: loads what an entry says, the engine in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.facade.daemon_work import in_daemon
from onnxgen.facade.embedder import Embedder
from onnxgen.facade.encoder_graph import find_encoder
from onnxgen.foundations.process_memory import growth_bytes, resident_bytes
from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.folder import is_model_folder
from onnxgen.server.models.engine_options import engine_config, runtime_config
from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.models.loaded import LoadedModel
from onnxgen.server.settings import ServerSettings

_TURN_TOKENS = 512
"""Tokens after which another request's texts may have their turn: a tenth of a second, for a tenth of the speed."""


class ModelLoader:
    """Loads models while the loop goes on.

    Args:
        settings: How the server serves.
        runtime: How models are run.
        progress: Shows what takes time.
        now: Seconds since 1970.
        clock: Seconds from any beginning.
    """

    def __init__(
        self,
        settings: ServerSettings,
        runtime: RuntimeConfig,
        *,
        progress: Progress = SILENT,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._runtime, self._progress = settings, runtime, progress
        self._now, self._clock = now, clock

    async def __call__(self, entry: ModelEntry) -> LoadedModel:
        """Load a model.

        Raises:
            OnnxgenError: Why it cannot be.
            OSError: A file cannot be read, or the disk is full.
        """
        if gives_vectors(entry):
            return await in_daemon(lambda: self._embedder(entry), discard=LoadedModel.close)
        return await self._llm(entry)

    async def _llm(self, entry: ModelEntry) -> LoadedModel:
        runtime, started = runtime_config(entry, self._runtime), self._clock()
        llm = await AsyncLLM.load(
            entry.source,
            config=runtime,
            precision=entry.precision,
            draft_model=entry.draft_model,
            engine=engine_config(entry, self._settings, runtime),
            in_process=False,
            chat_template=entry.chat_template,
            progress=self._progress,
        )
        try:
            for name, path in entry.adapters.items():
                await llm.load_adapter(path, name)
        except BaseException:
            await llm.aclose()
            raise
        return LoadedModel(
            entry,
            llm=llm,
            # the folder, for what was fetched or built is found again there
            open_vectors=lambda: Embedder(llm.spec.folder, config=runtime, batch_tokens=_TURN_TOKENS),
            adapters=tuple(entry.adapters),
            loaded_at=self._now(),
            load_s=self._clock() - started,
        )

    def _embedder(self, entry: ModelEntry) -> LoadedModel:
        runtime, started, before = runtime_config(entry, self._runtime), self._clock(), resident_bytes()
        embedder = Embedder(entry.source, config=runtime, batch_tokens=_TURN_TOKENS)
        return LoadedModel(
            entry,
            embedder=embedder,
            loaded_at=self._now(),
            load_s=self._clock() - started,
            memory_bytes=growth_bytes(before, resident_bytes()),
        )


def gives_vectors(entry: ModelEntry) -> bool:
    """Whether a model is an encoder, as far as its entry and its folder say."""
    if entry.task != "auto":
        return entry.task == "embed"
    folder = Path(entry.source).expanduser()
    return folder.is_dir() and not is_model_folder(folder) and find_encoder(folder) is not None
