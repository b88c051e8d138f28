"""`ChatSession`: a conversation that keeps what it has computed between turns."""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, cast

from onnxgen.engine.sampling.options import check_integer
from onnxgen.errors import OptionError, StateError
from onnxgen.facade.answer import Answer
from onnxgen.facade.answering import start_answers
from onnxgen.facade.generation_options import GenerationOptions, changed_options
from onnxgen.facade.model_text import Messages
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
        tools: Definitions of tools that the model may call, as `LLM.chat` takes them.
        prompt_options: How the conversation becomes a prompt. Without a time of its own, the one at which the session
            began is kept, so that a template that writes it does not begin anew.
    """

    def __init__(
        self,
        model: TextModel,
        *,
        system: str | None = None,
        tools: Messages | None = None,
        prompt_options: PromptOptions | None = None,
    ) -> None:
        self._model = model
        self._prompt_options = _with_time(given_prompt_options(prompt_options))
        self._system = _text_or_none(system)
        self._tools = tools
        self._turns: list[list[dict[str, Any]]] = []  # each from a question to before the next one
        self._running: Generator[Chunk] | None = None
        self._closed = False

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far, system message first: a copy."""
        system = [] if self._system is None else [{"role": "system", "content": self._system}]
        return [*system, *(message for turn in copy.deepcopy(self._turns) for message in turn)]

    @property
    def system(self) -> str | None:
        """The instructions in front of the conversation."""
        return self._system

    def send(
        self,
        text: str,
        *,
        options: GenerationOptions | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
    ) -> Iterator[Chunk]:
        """Say something; gives the pieces of the answer.

        Text and answer become part of the conversation when the answer ends. An iterator that is closed
        early (or dropped for another `send`) leaves what it has given so far, or nothing if that is nothing.

        Args:
            text: What is said.
            options: How to answer.
            tool_choice: See `PromptOptions`; None: as the session's options say.

        Raises:
            ContextLengthError: The conversation does not fit the context any more.
            ChatTemplateError: The model has no chat template, or it refuses the messages.
            OptionError: The options ask for several answers, or contradict each other.
            StateError: The session is closed, or another thread is in `send`.
        """
        self._get_ready()
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
            raise OptionError(f"a message must be a text, got {text!r:.60}")
        turn: list[dict[str, Any]] = []
        return self._start(turn, [{"role": "user", "content": text}], options, tool_choice)

    def send_results(
        self,
        results: Mapping[str, Any] | Sequence[Any],
        *,
        options: GenerationOptions | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
    ) -> Iterator[Chunk]:
        """Say what the tools gave that the last answer called; gives the pieces of the next answer, as `send` does.

        Args:
            results: By id of a call, or in the order of the calls: texts, or anything that JSON can say.
            options: See `send`.
            tool_choice: See `send`.

        Raises:
            OptionError: A call has no result, or there are results without a call.
            StateError: The last answer called nothing.
        """
        self._get_ready()
        last = self._turns[-1][-1] if self._turns else {}
        calls = cast("list[dict[str, Any]]", last.get("tool_calls", []))
        if not calls:
            raise StateError("the last answer called no tool; go on with send()")
        given = _by_call(results, [call["id"] for call in calls])
        messages = [
            {
                "role": "tool",
                "tool_call_id": call["id"],
                "name": call["function"]["name"],
                "content": given[call["id"]],
            }
            for call in calls
        ]
        return self._start(self._turns[-1], messages, options, tool_choice)

    def _start(
        self,
        turn: list[dict[str, Any]],
        messages: list[dict[str, Any]],
        options: GenerationOptions | None,
        tool_choice: str | Mapping[str, Any] | None,
    ) -> Iterator[Chunk]:
        """Answer messages that belong to a turn, which is a new one where it is empty."""
        settings = changed_options(options, {})
        if settings.n != 1:
            raise OptionError(
                f"a conversation goes on with one answer, got n={settings.n}; fork the session instead"
            )
        prompt_options = self._prompt_options
        if tool_choice is not None:
            prompt_options = replace(prompt_options, tool_choice=tool_choice)
        question = self._model.text.chat_question(
            [*self.messages, *messages], settings, prompt_options, tools=self._tools
        )
        [answer] = start_answers(self._model.text, [question])
        self._running = self._answer(turn, messages, answer, self._model.pieces([question], [answer]))
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
        check_integer("num_turns", num_turns, low=0, high=len(self._turns))
        del self._turns[len(self._turns) - num_turns :]

    def fork(self) -> ChatSession:
        """Another conversation that begins like this one, and shares what was computed of it.

        A question that is being answered is not part of it.
        """
        other = ChatSession(
            self._model, system=self._system, tools=self._tools, prompt_options=self._prompt_options
        )
        other._turns = copy.deepcopy(self._turns)
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

    def _answer(
        self,
        turn: list[dict[str, Any]],
        messages: list[dict[str, Any]],
        answer: Answer,
        pieces: Iterator[Chunk],
    ) -> Generator[Chunk]:
        has_ended = False
        try:
            for chunk in pieces:
                if chunk.finish_reason is not None:
                    has_ended = True
                    self._remember(turn, [*messages, answer.message])
                yield chunk
        except (GeneratorExit, KeyboardInterrupt):
            if not has_ended and (answer.text or answer.tool_calls):
                self._remember(turn, [*messages, answer.message])
            raise

    def _remember(self, turn: list[dict[str, Any]], messages: list[dict[str, Any]]) -> None:
        if not turn:
            self._turns.append(turn)
        turn += messages

    def _get_ready(self) -> None:
        self._stop_running()
        if self._closed:
            raise StateError("this session was closed; open another with LLM.session()")

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


def _by_call(results: Mapping[str, Any] | Sequence[Any], call_ids: Sequence[str]) -> dict[str, str]:
    """Results as texts, by the id of their call."""
    if isinstance(results, Mapping):
        given = dict(results)
    elif isinstance(results, Sequence) and not isinstance(results, (str, bytes)):  # pyright: ignore[reportUnnecessaryIsInstance]
        if len(results) != len(call_ids):
            raise OptionError(f"{len(results)} results were given for {len(call_ids)} calls of tools")
        given = dict(zip(call_ids, results, strict=True))
    else:
        raise OptionError(f"results must be a mapping or a list, got {results!r:.60}")
    missing, unknown = [i for i in call_ids if i not in given], [i for i in given if i not in call_ids]
    if missing or unknown:
        raise OptionError(
            f"results are wanted for the calls {', '.join(call_ids)}; "
            + (f"{missing[0]} has none" if missing else f"{unknown[0]!r:.60} is none of them")
        )
    return {call_id: _as_text(given[call_id]) for call_id in call_ids}


def _as_text(result: Any) -> str:
    if isinstance(result, str):
        return result
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError) as cause:
        raise OptionError(f"the result of a tool must be a text or JSON data, got {result!r:.60}") from cause


def _text_or_none(system: object) -> str | None:
    if system is not None and not isinstance(system, str):
        raise OptionError(f"system must be a text or None, got {system!r:.60}")
    return system
