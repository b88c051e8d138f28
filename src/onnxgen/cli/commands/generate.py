"""``onnxgen generate``: one answer, for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxgen.cli import loading
from onnxgen.cli.answers import statistics, stream_answer
from onnxgen.cli.conversations import open_conversation
from onnxgen.cli.options import (
    Backend,
    ConfigFile,
    Json,
    LogLevel,
    MaxNewTokens,
    MinNewTokens,
    ModelArgument,
    PrecisionOption,
    RepetitionPenalty,
    Seed,
    Stop,
    System,
    Temperature,
    Threads,
    TopK,
    TopP,
    Verbose,
)
from onnxgen.cli.prompt_text import STDIN, combined_prompt
from onnxgen.cli.settings import global_options, load_settings
from onnxgen.cli.terminal import note

if TYPE_CHECKING:
    from onnxgen.facade.llm import Chunk, Completion


def generate(
    ctx: typer.Context,
    model: ModelArgument,
    prompt: Annotated[
        str, typer.Argument(metavar="PROMPT", help="The prompt; '-' reads it from standard input.")
    ],
    json_output: Json = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the prompt as it is, without the chat template.")
    ] = False,
    system: System = None,
    max_new_tokens: MaxNewTokens = None,
    min_new_tokens: MinNewTokens = 0,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    repetition_penalty: RepetitionPenalty = None,
    seed: Seed = None,
    stop: Stop = None,
    precision: PrecisionOption = "int4",
    backend: Backend = None,
    threads: Threads = None,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Generate one answer and exit."""
    resolved = load_settings(
        ctx, config_file=config, log_level=log_level, verbose=verbose, backend=backend, threads=threads
    )
    text = combined_prompt(prompt, sys.stdin) if prompt == STDIN else prompt
    from onnxgen.facade.llm import GenerationOptions

    options = GenerationOptions(
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        stop=tuple(stop or ()),
    )
    with loading.open_llm(model, config=resolved.config, precision=precision) as llm:
        conversation = open_conversation(llm, system=system, options=options, raw=raw)
        if json_output:
            completion = last_completion(conversation.send(text))
            sys.stdout.write(json.dumps(as_json(completion)) + "\n")
            return
        answer = stream_answer(conversation, text, sys.stdout)
        if answer.completion is None:
            raise KeyboardInterrupt
        if global_options(ctx).verbose:
            note(f"load {llm.load_s:.3f} s; {statistics(answer)}")


def last_completion(chunks: Iterator[Chunk]) -> Completion:
    """The whole answer, which the last piece carries."""
    completion = None
    for chunk in chunks:
        completion = chunk.completion or completion
    assert completion is not None, "the last chunk of an answer carries its completion"
    return completion


def as_json(completion: Completion) -> dict[str, Any]:
    """What ``--json`` prints; a number that was not measured is null."""
    usage, timings = completion.usage, completion.timings
    return {
        "text": completion.text,
        "token_ids": list(completion.token_ids),
        "finish_reason": completion.finish_reason,
        "usage": {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens},
        "timings": {
            "load_s": timings.load_s,
            "ttft_s": timings.ttft_s,
            "prefill_tok_s": timings.prefill_tok_s,
            "decode_tok_s": timings.decode_tok_s,
        },
    }
