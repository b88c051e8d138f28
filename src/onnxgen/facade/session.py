"""`ChatSession`: a conversation that keeps what it has computed between turns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Self

from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import check_integer
from onnxgen.errors import OptionError, StateError
from onnxgen.facade.answer import Answer
from onnxgen.facade.answering import answer_requests
from onnxgen.facade.generation_options import GenerationOptions, changed_options
from onnxgen.facade.results import Chunk
from onnxgen.facade.text_model import TextModel


class ChatSession:
    """A conversation with a model. For one thread at a time.

    What the last turns have in common with the next prompt is not computed again, unless the memory for it was
    needed otherwise in between.

    Args:
        model: The model; it must stay open.
        system: Instructions in front of the conversation.
    """

    def __init__(self, model: TextModel, *, system: str | None = None) -> None:
        self._model = model
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
            StateError: The session is closed, or another thread is in `send`.
        """
        self._stop_running()
        if self._closed:
            raise StateError("this session was closed; open another with LLM.session()")
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
            raise OptionError(f"a message must be a text, got {text!r:.60}")
        settings = changed_options(options, {})
        question = {"role": "user", "content": text}
        request = self._model.text.request(self._model.text.encode_chat([*self.messages, question]), settings)
        answer = self._model.text.start_answer(request, settings)
        self._running = self._answer(question, request, answer)
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
        other = ChatSession(self._model, system=self._system)
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

    def _answer(self, question: dict[str, str], request: EngineRequest, answer: Answer) -> Generator[Chunk]:
        try:
            for chunk in answer_requests(self._model.engine, [request], [answer]):
                if chunk.finish_reason is not None:
                    self._remember(question, answer, keep_empty=True)
                yield chunk
        except (GeneratorExit, KeyboardInterrupt):
            self._remember(question, answer, keep_empty=False)
            raise

    def _remember(self, question: dict[str, str], answer: Answer, *, keep_empty: bool) -> None:
        if self._turns and self._turns[-2] is question:
            return  # closed after its last piece
        if answer.text or keep_empty:
            self._turns += [question, {"role": "assistant", "content": answer.text}]

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


def _text_or_none(system: object) -> str | None:
    if system is not None and not isinstance(system, str):
        raise OptionError(f"system must be a text or None, got {system!r:.60}")
    return system
