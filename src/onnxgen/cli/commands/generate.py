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
from onnxgen.cli.generation_flags import answer_options, read_schema, read_tools_file
from onnxgen.cli.options import (
    AdapterOption,
    Backend,
    ConfigFile,
    DraftModelOption,
    Json,
    LogLevel,
    MaxNewTokens,
    MinNewTokens,
    ModelArgument,
    PrecisionOption,
    RepetitionPenalty,
    SchemaOption,
    Seed,
    Setting,
    SpeculationOption,
    Stop,
    System,
    Temperature,
    Threads,
    ToolsOption,
    TopK,
    TopP,
    Verbose,
)
from onnxgen.cli.prompt_text import STDIN, combined_prompt
from onnxgen.cli.settings import global_options, load_settings
from onnxgen.cli.terminal import note

if TYPE_CHECKING:
    from onnxgen.facade.llm import Chunk, Completion
    from onnxgen.facade.results import TokenLogprob


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
    schema: SchemaOption = None,
    tools: ToolsOption = None,
    speculation: SpeculationOption = None,
    draft_model: DraftModelOption = None,
    adapter: AdapterOption = None,
    set_: Setting = None,
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
    options, prompt_options = answer_options(
        set_,
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        stop=stop,
        response_format=read_schema(schema),
        speculation=speculation or ("draft_model" if draft_model else None),
    )
    offered = read_tools_file(tools)
    with loading.open_llm(model, config=resolved.config, precision=precision, draft_model=draft_model) as llm:
        options = loading.under_adapter(llm, options, adapter)
        conversation = open_conversation(
            llm,
            system=system,
            tools=offered,
            options=options,
            prompt_options=prompt_options,
            raw=raw,
        )
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
    told: dict[str, Any] = {}
    if completion.reasoning:
        told["reasoning"] = completion.reasoning
    if completion.tool_calls:
        told["tool_calls"] = completion.message["tool_calls"]
    if completion.logprobs is not None:
        told["logprobs"] = [_logprob(token) for token in completion.logprobs]
    if completion.prompt_logprobs is not None:
        told["prompt_logprobs"] = [token and _logprob(token) for token in completion.prompt_logprobs]
    if completion.score is not None:
        told["score"] = completion.score
    return {
        "text": completion.text,
        **told,
        "token_ids": list(completion.token_ids),
        "finish_reason": completion.finish_reason,
        "stop": completion.stop,
        "usage": {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens},
        "timings": {
            "load_s": timings.load_s,
            "ttft_s": timings.ttft_s,
            "prefill_tok_s": timings.prefill_tok_s,
            "decode_tok_s": timings.decode_tok_s,
        },
    }


def _logprob(token: TokenLogprob) -> dict[str, Any]:
    return {
        "token": token.token,
        "bytes": list(token.token_bytes),
        "logprob": _finite(token.logprob),
        "rank": token.rank,
        "top": [
            {"token": t.token, "bytes": list(t.token_bytes), "logprob": _finite(t.logprob)} for t in token.top
        ],
    }


def _finite(logprob: float) -> float:
    return max(logprob, -9999.0)  # JSON has no infinity
