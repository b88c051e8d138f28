"""`ServedModel`: a model's text side, and an engine for it in a thread or in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnxgen.backends.base import Backend
from onnxgen.engine.client import EngineClient, ModelRecipe, in_process, in_subprocess
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.speculation.loaded import proposer_recipes
from onnxgen.errors import CapabilityError
from onnxgen.facade.answer import Clock
from onnxgen.facade.model_text import ModelText
from onnxgen.facade.question import Question
from onnxgen.facade.results import Chunk
from onnxgen.facade.text_model import TextModel
from onnxgen.foundations.progress import Progress, shown_by
from onnxgen.foundations.runtime_config import RuntimeConfig


class ServedModel:
    """A model's text side here, and an engine for it elsewhere, which is not started yet.

    Args:
        folder: A model folder.
        config: How to run it.
        engine: How requests share it.
        backend: An executor that is loaded already, for an engine in a thread; it stays the caller's to close.
        draft: The folder of a smaller model that guesses tokens.
        own_process: The engine gets a process of its own, which loads the model when it starts; else a thread.
        template: Text of a chat template to use instead of the folder's own.
        progress: Shows loading in this process.
        clock: Seconds from any beginning.

    Attributes:
        text: Prompts into requests, tokens into answers.
        client: The engine.

    Raises:
        ModelFileError: A file of the folder is missing or wrong.
        BackendError: The backend failed to load the model.
        ConfigError: The draft model has another vocabulary, or the folder lacks what is to guess tokens.
    """

    def __init__(
        self,
        folder: Path,
        *,
        config: RuntimeConfig,
        engine: EngineConfig,
        backend: Backend | None,
        draft: Path | None,
        own_process: bool,
        template: str | None,
        progress: Progress,
        clock: Clock,
    ) -> None:
        self._model: TextModel | None = None
        if own_process:
            self.text = ModelText(folder, template=template, clock=clock)
            proposers = proposer_recipes(self.text.spec, config, engine.speculation, draft=draft)
            for each in proposers:
                each.check(self.text.spec, tokenizer=self.text.tokenizer)
            self.client = in_subprocess(
                ModelRecipe(folder, config, engine, unused=self.text.unused_ids, proposers=proposers)
            )
        else:
            with shown_by(progress):
                model = TextModel(
                    folder,
                    config=config,
                    engine=engine,
                    backend=backend,
                    draft=draft,
                    template=template,
                    clock=clock,
                )
            self._model, self.text = model, model.text
            self.client = _in_thread(model, engine)

    def has_beams(self, questions: Sequence[Question]) -> bool:
        """Whether a search with beams answers questions, not the engine."""
        return any(question.options.beams(self.text.spec.search) for question in questions)

    def search(self, questions: Sequence[Question]) -> list[Chunk]:
        """The answers to questions, by a search with beams, which runs beside the engine.

        Raises:
            CapabilityError: The model is in another process.
            OptionError: The options ask for something that beams cannot do.
        """
        if self._model is None:
            raise CapabilityError(
                "beams cannot be searched by an engine in a process of its own; use in_process=True, or num_beams=1"
            )
        return list(self._model.answer(questions))

    def close(self) -> None:
        """End the engine and release the model. Calling it twice is harmless."""
        has_ended = self.client.close()
        if self._model is not None and has_ended:  # else a step that hangs is still using it
            self._model.close()


def _in_thread(model: TextModel, config: EngineConfig) -> EngineClient:
    return in_process(lambda: model.open_engine(config))
