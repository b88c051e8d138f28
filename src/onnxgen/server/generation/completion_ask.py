"""`CompletionAsk`: prompts to go on with, as they are; how they become token ids, and how a model is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnxgen.errors import CapabilityError
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.prompts import prompts_of
from onnxgen.facade.results import Chunk
from onnxgen.preprocess.long_texts import check_length
from onnxgen.server.errors import ApiError
from onnxgen.server.generation.completion_logprobs import Echo
from onnxgen.server.generation.counts import check_count
from onnxgen.server.generation.large_requests import MAX_COUNTED_TOKENS
from onnxgen.server.generation.options import generation_options
from onnxgen.server.schemas.completions import CompletionRequest
from onnxgen.server.settings import ServerSettings

if TYPE_CHECKING:
    from onnxgen.facade.async_llm import AsyncLLM
    from onnxgen.server.models.table import LoadedModel

USUAL_MAX_TOKENS = 16
"""How long answers are where nobody says, as OpenAI has it."""


@dataclass(slots=True)
class CompletionAsk:
    """Prompts to go on with.

    Attributes:
        fields: What the request says.
        prompts: Texts, or token ids.
        n: Answers to each that are given.
        num_made: Answers to each that are made.
        echoes: The prompts as they stand before answers; there once the model was asked, if they are wanted.
        prompt_ids: Token ids of each prompt; there once the model was asked.
    """

    fields: CompletionRequest
    prompts: Sequence[str | list[int]]
    n: int
    num_made: int
    echoes: list[Echo] = field(default_factory=list[Echo])
    prompt_ids: list[list[int]] = field(default_factory=list[list[int]])

    @classmethod
    def read(cls, fields: CompletionRequest, settings: ServerSettings) -> CompletionAsk:
        """What a request asks.

        Raises:
            ApiError: 400, naming the field: it asks for more than is allowed, or for things that do not go together.
            OptionError: A prompt has nothing in it.
        """
        prompts, _ = prompts_of(fields.prompt, name="prompt")
        n = 1 if fields.n is None else fields.n
        ask = cls(fields, prompts, n, n if fields.best_of is None else fields.best_of)
        ask._check(settings)
        return ask

    @property
    def size(self) -> int:
        """Characters of all prompts together, or tokens, which are as much work each."""
        return sum(map(len, self.prompts)) + len(self.fields.suffix or "")

    @property
    def shows_logprobs(self) -> bool:
        """Whether log probabilities are given."""
        return self.fields.logprobs is not None

    def options(self, model: LoadedModel, settings: ServerSettings) -> GenerationOptions:
        """How to answer.

        Raises:
            ApiError: 400, naming the field: a value is out of range, or more than the operator allows.
        """
        fields = self.fields
        options = generation_options(fields, model=model, settings=settings)
        changes: dict[str, Any] = {"n": self.num_made}
        told = [fields.prompt_logprobs, fields.logprobs if fields.echo else None]
        wanted = [top for top in told if top is not None]
        if wanted:
            changes["prompt_logprobs"] = max(wanted)
        if self.num_made > self.n and fields.logprobs is None:
            changes["logprobs"] = 0
        if fields.max_tokens == 0:
            changes |= {"max_new_tokens": 0, "min_new_tokens": 0, "allow_cap": False}
            changes.setdefault("prompt_logprobs", 0)
        elif fields.max_tokens is None and "max_new_tokens" not in _defaults(model):
            most = min(USUAL_MAX_TOKENS, settings.max_output_tokens or USUAL_MAX_TOKENS)
            changes["max_new_tokens"] = max(most, options.min_new_tokens)
        return options.with_changes(changes)

    def ask(self, llm: AsyncLLM, options: GenerationOptions, **terms: Any) -> AsyncGenerator[Chunk]:
        """Ask a model; takes a while for long prompts.

        Args:
            llm: The model.
            options: How to answer.
            terms: Who asks, as `AsyncLLM.generate` takes it.

        Raises:
            OnnxgenError: As `AsyncLLM.generate` and `AsyncLLM.infill`.
            ApiError: 400: the model fills no gaps.
        """
        suffix = self.fields.suffix
        if suffix is not None:
            [prefix] = self.prompts
            assert isinstance(prefix, str)
            try:
                return llm.infill(prefix, suffix, options=options, **terms)
            except CapabilityError as cause:
                raise _wrong(
                    "suffix", "is for models that were trained to fill gaps; this one was not"
                ) from cause
        new = options.max_new_tokens or 0
        self.prompt_ids = [self._ids(prompt, llm, new=new) for prompt in self.prompts]
        if self.fields.echo:
            self.echoes = [
                Echo.of(self._whole_text(prompt), ids, llm.tokenizer)
                for prompt, ids in zip(self.prompts, self.prompt_ids, strict=True)
            ]
        return llm.generate(self.prompt_ids, options=options, **terms)

    def _ids(self, prompt: str | list[int], llm: AsyncLLM, *, new: int) -> list[int]:
        keep = self.fields.truncate_prompt_tokens
        if isinstance(prompt, str):
            most = llm.context_length if keep is None else MAX_COUNTED_TOKENS
            check_length(prompt, most, tokenizer=llm.tokenizer)
        if isinstance(prompt, str) and self.fields.add_special_tokens is False:
            ids = llm.tokenizer.encode(prompt)
        else:
            ids = llm.prompt_ids(prompt)
        if keep is None:
            return ids
        return ids[-keep:] if keep > 0 else ids[-max(llm.context_length - new, 1) :]

    def _whole_text(self, prompt: str | list[int]) -> str | None:
        """The text of a prompt that has all of it."""
        if self.fields.truncate_prompt_tokens is None and isinstance(prompt, str):
            return prompt
        return None

    def _check(self, settings: ServerSettings) -> None:
        fields, num_prompts = self.fields, len(self.prompts)
        if not self.prompts:
            raise ApiError(400, "prompt is empty; give a text, or token ids", param="prompt")
        check_count("prompt", self.prompts, settings.max_prompts)
        answers = num_prompts * self.num_made
        if answers > settings.max_answers:
            field = "prompt" if num_prompts > 1 else "n" if fields.best_of is None else "best_of"
            raise _wrong(
                field, f"asks for {answers} answers; this server gives at most {settings.max_answers}"
            )
        if self.num_made < self.n:
            raise _wrong("best_of", f"is {self.num_made}, less than n, which is {self.n}")
        if self.num_made > self.n and fields.wants_stream:
            raise _wrong("best_of", "needs all answers to choose from, so they cannot be streamed")
        if fields.prompt_logprobs is not None:
            if fields.wants_stream:
                raise _wrong(
                    "prompt_logprobs", "cannot be streamed; leave out stream, or give echo and logprobs"
                )
            if fields.prompt_logprobs > settings.max_logprobs:
                raise _wrong(
                    "prompt_logprobs",
                    f"is {fields.prompt_logprobs}; this server allows at most {settings.max_logprobs}",
                )
        keep = fields.truncate_prompt_tokens
        if keep is not None and keep != -1 and keep < 1:
            raise _wrong("truncate_prompt_tokens", f"is {keep}; it must be at least 1, or -1 for the context")
        if fields.suffix is not None:
            self._check_suffix()

    def _check_suffix(self) -> None:
        fields = self.fields
        if len(self.prompts) > 1 or not isinstance(self.prompts[0], str):
            raise _wrong("suffix", "goes with one prompt, which is a text")
        if fields.max_tokens == 0:
            raise _wrong("suffix", "is of a gap to fill, for which max_tokens must be at least 1")
        for name in ("prompt_logprobs", "add_special_tokens", "truncate_prompt_tokens"):
            if getattr(fields, name) is not None:
                raise _wrong(name, "does not go together with suffix")
        for name in ("echo", "return_token_ids"):
            if getattr(fields, name):
                raise _wrong(name, "does not go together with suffix")


def _defaults(model: LoadedModel) -> Any:
    entry: Any = model.entry
    return {} if entry is None else entry.defaults


def _wrong(field: str, message: str) -> ApiError:
    return ApiError(400, f"{field} {message}", param=field)
