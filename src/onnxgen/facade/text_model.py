"""`TextModel`: a loaded model with its text side and an engine, for everything that answers with it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from onnxgen.backends.base import Backend
from onnxgen.engine.beams.answers import BeamModel
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.of_model import engine_of
from onnxgen.engine.shared import SharedEngine
from onnxgen.engine.speculation.loaded import LoadedProposers, proposer_recipes
from onnxgen.engine.speculation.of_models import with_own_draft
from onnxgen.facade.adapters import Adapters
from onnxgen.facade.answer import Answer, Clock
from onnxgen.facade.answering import answer_questions, start_answers
from onnxgen.facade.beam_answering import answer_with_beams, check_beam_question
from onnxgen.facade.model import Model
from onnxgen.facade.model_text import ModelText
from onnxgen.facade.question import Question
from onnxgen.facade.results import Chunk
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.scheduler.config import SchedulerConfig


class TextModel:
    """A loaded model with its text side and an engine. May be used from several threads.

    Args:
        folder: A model folder.
        config: How to run it.
        engine: How requests share it.
        backend: An executor that is loaded already; it stays the caller's to close.
        draft: The folder of a smaller model that guesses tokens.
        template: Text of a chat template to use instead of the folder's own.
        clock: Seconds from any beginning.

    Attributes:
        text: Prompts into requests, tokens into answers.
        model: The model.
        engine: Made when it is first asked for something.
        adapters: Of the model, for requests by name.

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
        engine: EngineConfig | None = None,
        backend: Backend | None = None,
        draft: Path | None = None,
        template: str | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        started = clock()
        self._engine_config = engine or default_engine_config(config)
        speculation = self._engine_config.speculation
        # before the weights: a broken tokenizer is told at once
        self.text = ModelText(folder, template=template, clock=clock)
        proposers = proposer_recipes(self.text.spec, config, speculation, draft=draft)
        for each in proposers:
            each.check(self.text.spec, tokenizer=self.text.tokenizer)
        self.model = Model(self.text.config, runtime=config, backend=backend, speculation=speculation)
        try:
            self.model.check_inputs()
            if self.model.draft is not None:
                proposers = with_own_draft(proposers, self.model.draft)
            self._guessing = LoadedProposers(proposers, self.text.spec, unused=self.text.unused_ids)
        except BaseException:
            self.model.close()
            raise
        self.adapters = Adapters(self.model)
        self.engine = SharedEngine(lambda: self.open_engine(self._engine_config))
        self.text.load_s = clock() - started

    @contextlib.contextmanager
    def open_engine(self, config: EngineConfig) -> Generator[EngineCore]:
        """An engine on the model's backend, for a ``with`` block that closes it.

        Raises:
            BackendError: There is no memory for a cache.
            ConfigError: There is no such policy, or a file or folder of the configuration cannot be made.
        """
        text = self.text
        with (
            self._guessing.open() as proposers,
            contextlib.closing(
                engine_of(
                    text.spec,
                    self.model.backend,
                    config,
                    unused=text.unused_ids,
                    grammars=text.grammars,
                    proposers=proposers,
                )
            ) as engine,
        ):
            yield engine

    def answer(self, questions: Sequence[Question]) -> Iterator[Chunk]:
        """The pieces of all answers as they come; the work happens while they are taken.

        Args:
            questions: What is asked, all with the same options.

        Raises:
            OptionError: The options ask for beams, and for something that beams cannot do.
            GrammarError: What an answer must look like cannot be held to.
        """
        return self.pieces(questions, start_answers(self.text, questions))

    def pieces(self, questions: Sequence[Question], answers: Sequence[Answer]) -> Iterator[Chunk]:
        """Likewise, for answers that the caller has started with `start_answers`, and reads as they grow."""
        beams = questions[0].options.beams(self.text.spec.search) if questions else None
        if beams is None:
            self.text.check_grammars(questions)
            return answer_questions(self.engine, questions, answers)
        for question in questions:
            check_beam_question(question)
        return answer_with_beams(self._beam_model(), questions, answers, beams, clock=self.text.clock)

    def _beam_model(self) -> BeamModel:
        spec, unused = self.text.spec, self.text.unused_ids
        return BeamModel(
            self.model.backend,
            eos_ids=spec.tokens.eos,
            num_tokens=unused.num_tokens,
            unused_ids=unused.holes,
            chunk_tokens=self.model.runtime.prefill_chunk_tokens,
            rope_switch_length=spec.decoder.rope_switch_length,
        )

    def close(self) -> None:
        """Release engine and model. Calling it twice is harmless."""
        self.engine.close()
        self._guessing.close()
        self.adapters.close()
        self.model.close()


def default_engine_config(config: RuntimeConfig) -> EngineConfig:
    """How requests share a model where nobody says."""
    chunk, max_seqs = config.prefill_chunk_tokens, SchedulerConfig().max_seqs
    return EngineConfig(scheduler=SchedulerConfig(chunk_tokens=chunk, max_step_tokens=max(chunk, max_seqs)))
