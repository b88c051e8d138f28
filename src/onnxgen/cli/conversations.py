"""Talking to a loaded model: a conversation where it has a chat template, plain completion otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from onnxgen.errors import OptionError, StateError

if TYPE_CHECKING:
    from onnxgen.facade.llm import LLM, Chunk, GenerationOptions, PromptOptions


class Conversation(Protocol):
    """What a command needs to talk to a model."""

    def send(self, text: str) -> Iterator[Chunk]:
        """Ask; the answer comes in pieces, the last one with the whole."""
        ...

    def send_results(self, results: Sequence[str]) -> Iterator[Chunk]:
        """Say what the tools gave that the last answer called, in the order of its calls; as `send`.

        Raises:
            OnnxgenError: There were no calls, or others than results.
        """
        ...

    def reset(self) -> None:
        """Forget what was said."""
        ...

    def set_system(self, text: str | None) -> None:
        """Give the system message for what follows.

        Raises:
            OptionError: The model has no chat template, so no place for one.
        """
        ...


def open_conversation(
    llm: LLM,
    *,
    system: str | None,
    options: GenerationOptions,
    tools: Sequence[Any] | None = None,
    prompt_options: PromptOptions | None = None,
    raw: bool = False,
) -> Conversation:
    """Begin to talk to a model; ``raw`` leaves its chat template out.

    Raises:
        OptionError: A system message was given, or an option of prompts, but there is no chat template for it.
    """
    if raw or not llm.has_chat_template:
        why = "--raw leaves the chat template out" if raw else f"{llm.spec.folder} has no chat template"
        if system is not None:
            raise OptionError(f"--system was given, but {why}; put the text into the prompt instead")
        if prompt_options is not None and prompt_options != type(prompt_options)():
            raise OptionError(
                f"options of chat prompts were given, but {why}; leave them out: {prompt_options}"
            )
        if tools is not None:
            raise OptionError(f"--tools was given, but {why}, and it is what tells a model of tools")
        return _Completions(llm, options)
    return _Chat(llm, system, tools, options, prompt_options)


class _Chat:
    def __init__(
        self,
        llm: LLM,
        system: str | None,
        tools: Sequence[Any] | None,
        options: GenerationOptions,
        prompt_options: PromptOptions | None,
    ) -> None:
        self._session = llm.session(system=system, tools=tools, prompt_options=prompt_options)
        self._options = options

    def send(self, text: str) -> Iterator[Chunk]:
        return self._session.send(text, options=self._options)

    def send_results(self, results: Sequence[str]) -> Iterator[Chunk]:
        return self._session.send_results(results, options=self._options)

    def reset(self) -> None:
        self._session.reset()

    def set_system(self, text: str | None) -> None:
        self._session.set_system(text)


class _Completions:
    def __init__(self, llm: LLM, options: GenerationOptions) -> None:
        self._llm = llm
        self._options = options

    def send(self, text: str) -> Iterator[Chunk]:
        return self._llm.generate(text, options=self._options, stream=True)

    def send_results(self, results: Sequence[str]) -> Iterator[Chunk]:
        raise StateError(
            f"{len(results)} results were given, and no tools are called without a chat template"
        )

    def reset(self) -> None:
        return None  # nothing is remembered between completions

    def set_system(self, text: str | None) -> None:
        raise OptionError(f"{self._llm.spec.folder} has no chat template, so no place for a system message")
