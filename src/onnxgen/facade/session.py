"""`ChatSession`: a conversation that keeps what it has computed between turns."""

from __future__ import annotations

import datetime
from collections.abc import Generator, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from onnxgen.engine.sampling.options import check_integer
from onnxgen.errors import OptionError, StateError
from onnxgen.facade.answer import Answer
from onnxgen.facade.answering import start_answers
from onnxgen.facade.generation_options import GenerationOptions, changed_options
from onnxgen.facade.prompt_options import PromptOptions, given_prompt_options
from onnxgen.facade.results import Chunk
from onnxgen.facade.text_model import TextModel


class ChatSession:
    """A conversation with a model. For one thread at a time.

    What the last turns have in common with the next prompt is not computed again, unless the memory for it was
    needed otherwise in between.

    Args:
        model: The model; it must stay open.
        system: Instructions in front of the conversation.
        prompt_options: How the conversation becomes a prompt. Without a time of its own, the one at which the session
            began is kept, so that a template that writes it does not begin anew.
    """

    def __init__(
        self, model: TextModel, *, system: str | None = None, prompt_options: PromptOptions | None = None
    ) -> None:
        self._model = model
        self._prompt_options = _with_time(given_prompt_options(prompt_options))
        self._system = _text_or_none(system)
        self._turns: list[dict[str, str]] = []
        self._running: Generator[Chunk] | None = None
        self._closed = False

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation so far, system message first: a copy."""
        system = [] if self._system is None else [{"role": "system", "content": self._system}]
        return [*system, *(dict(turn) for turn in self._turns)]

    @property
    def system(self) -> str | None:
        """The instructions in front of the conversation."""
        return self._system

    def send(self, text: str, *, options: GenerationOptions | None = None) -> Iterator[Chunk]:
        """Say something; gives the pieces of the answer.

        Text and answer become part of the conversation when the answer ends. An iterator that is closed
        early (or dropped for another `send`) leaves what it has given so far, or nothing if that is nothing.

        Raises:
            ContextLengthError: The conversation does not fit the context any more.
            ChatTemplateError: The model has no chat template, or it refuses the messages.
            OptionError: The options ask for several answers, or contradict each other.
            StateError: The session is closed, or another thread is in `send`.
        """
        self._stop_running()
        if self._closed:
            raise StateError("this session was closed; open another with LLM.session()")
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
            raise OptionError(f"a message must be a text, got {text!r:.60}")
        settings = changed_options(options, {})
        if settings.n != 1:
            raise OptionError(
                f"a conversation goes on with one answer, got n={settings.n}; fork the session instead"
            )
        message = {"role": "user", "content": text}
        question = self._model.text.chat_question([*self.messages, message], settings, self._prompt_options)
        [answer] = start_answers(self._model.text, [question])
        self._running = self._answer(message, answer, self._model.pieces([question], [answer]))
        return self._running

    def reset(self) -> None:
        """Forget the conversation, but not the instructions."""
        self._stop_running()
        self._turns.clear()

    def rewind(self, num_turns: int = 1) -> None:
        """Take back the last questions and their answers; what was computed before them is not computed again.

        Raises:
            OptionError: There are fewer turns.
        """
        self._stop_running()
        turns = len(self._turns) // 2
        check_integer("num_turns", num_turns, low=0, high=turns)
        del self._turns[2 * (turns - num_turns) :]

    def fork(self) -> ChatSession:
        """Another conversation that begins like this one, and shares what was computed of it.

        A question that is being answered is not part of it.
        """
        other = ChatSession(self._model, system=self._system, prompt_options=self._prompt_options)
        other._turns = [dict(turn) for turn in self._turns]
        return other

    def set_system(self, text: str | None) -> None:
        """Change the instructions; the conversation stays."""
        system = _text_or_none(text)
        self._stop_running()
        self._system = system

    def close(self) -> None:
        """End the conversation. Calling it twice is harmless."""
        self._stop_running()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, message: dict[str, str], answer: Answer, pieces: Iterator[Chunk]) -> Generator[Chunk]:
        try:
            for chunk in pieces:
                if chunk.finish_reason is not None:
                    self._remember(message, answer, keep_empty=True)
                yield chunk
        except (GeneratorExit, KeyboardInterrupt):
            self._remember(message, answer, keep_empty=False)
            raise

    def _remember(self, message: dict[str, str], answer: Answer, *, keep_empty: bool) -> None:
        if self._turns and self._turns[-2] is message:
            return  # closed after its last piece
        if answer.text or keep_empty:
            said = {"role": "assistant", "content": answer.text}
            if answer.reasoning:
                said["reasoning_content"] = answer.reasoning
            self._turns += [message, said]

    def _stop_running(self) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        try:
            running.close()
        except ValueError as cause:
            self._running = running
            raise StateError(
                "this session is answering in another thread; give every thread a session"
            ) from cause


def _with_time(options: PromptOptions) -> PromptOptions:
    return options if options.now is not None else replace(options, now=datetime.datetime.now())


def _text_or_none(system: object) -> str | None:
    if system is not None and not isinstance(system, str):
        raise OptionError(f"system must be a text or None, got {system!r:.60}")
    return system
