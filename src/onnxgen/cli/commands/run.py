"""``onnxgen run``: ask a model once, or talk to it."""

from __future__ import annotations

import sys
from typing import Annotated

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
    LogLevel,
    MaxNewTokens,
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
from onnxgen.cli.prompt_text import combined_prompt
from onnxgen.cli.settings import global_options, load_settings
from onnxgen.cli.terminal import is_terminal, note


def run(
    ctx: typer.Context,
    model: ModelArgument,
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT]",
            help="Ask this and exit; piped input is put after it, and '-' is piped input alone. Without it a "
            "conversation begins.",
            show_default=False,
        ),
    ] = None,
    system: System = None,
    max_new_tokens: MaxNewTokens = None,
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
    """Ask a model once, or talk to it.

    It is fetched and built first where needed.
    """
    resolved = load_settings(
        ctx, config_file=config, log_level=log_level, verbose=verbose, backend=backend, threads=threads
    )
    verbose = global_options(ctx).verbose
    question = None if prompt is None else combined_prompt(prompt, sys.stdin)
    options, prompt_options = answer_options(
        set_,
        max_new_tokens=max_new_tokens,
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
            llm, system=system, tools=offered, options=options, prompt_options=prompt_options
        )
        if question is not None:
            answer = stream_answer(conversation, question, sys.stdout)
            if answer.completion is None:
                raise KeyboardInterrupt
            if verbose:
                note(f"load {llm.load_s:.3f} s; {statistics(answer)}")
            return
        from onnxgen.cli.message_input import PlainInput, TerminalInput
        from onnxgen.cli.repl import Repl

        if is_terminal(sys.stdin) and is_terminal(sys.stdout):
            note(f"{model}: context {llm.spec.context_length} tokens. /help lists commands, Ctrl-D leaves.")
            messages = TerminalInput(resolved.config.cache_dir / "run_history")
        else:
            note("reading one message per line; with the prompt '-' all of standard input is one message")
            messages = PlainInput(sys.stdin)
        Repl(conversation, messages, out=sys.stdout, notes=note, system=system, verbose=verbose).run()
