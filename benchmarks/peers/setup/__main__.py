"""Make the environments and the models, once; what is there already is kept.

    python -m benchmarks.peers.setup --environments ENVIRONMENTS --models MODELS
    python -m benchmarks.peers.setup --environments ENVIRONMENTS --models MODELS --only og,openvino

Needs about 12 GB of disk. Everything takes half an hour on two cores, most of it to build llama.cpp.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.peers.layout import CHECKPOINT, model_path, python_of
from benchmarks.peers.setup.environments import ENVIRONMENTS, make_environment

MODELS = ("smollm2-135m", "random-0.5b")
FORMS = ("onnxgen", "og", "openvino", "llamacpp")


def main() -> None:
    """Make what is missing."""
    args = _arguments()
    peers = args.only.split(",")
    unknown = set(peers) - set(FORMS)
    if unknown:
        raise SystemExit(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(FORMS)}")
    needed = [name for name in ENVIRONMENTS if name in peers or name == "export"]
    for name in needed:
        print(f"environment {name}", flush=True)
        make_environment(args.environments, name)
    gguf = args.gguf or _pulled_gguf()
    for model in MODELS:
        for form in (CHECKPOINT, *peers):
            path = model_path(args.models, model, form)
            if not path.exists():
                print(f"{model} for {form}", flush=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                _made_whole(path, lambda part, m=model, f=form: _make(args, m, f, part, gguf))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--environments", type=Path, required=True, help="folder of virtual environments")
    parser.add_argument("--models", type=Path, required=True, help="folder of models")
    parser.add_argument("--gguf", type=Path, help="SmolLM2-135M-Instruct as GGUF; fetched if not given")
    parser.add_argument("--only", default=",".join(FORMS), help=f"some of {', '.join(FORMS)}")
    return parser.parse_args()


def _pulled_gguf() -> Path:
    from onnxgen.catalog import pull
    from onnxgen.foundations.config_sources import load_runtime_config

    return pull("smollm2", config=load_runtime_config().config).path


def _make(args: argparse.Namespace, model: str, form: str, output: Path, gguf: Path) -> None:
    """Make one model in one form at ``output``."""
    checkpoint = model_path(args.models, model, CHECKPOINT)
    export, llamacpp = (str(python_of(args.environments, name)) for name in ("export", "llamacpp"))
    is_random = model == "random-0.5b"
    if form == CHECKPOINT:
        source = (
            ["--tokenizer", model_path(args.models, MODELS[0], CHECKPOINT)] if is_random else ["--gguf", gguf]
        )
        _run([export, "-m", "benchmarks.peers.setup.checkpoints", model, output, *source])
    elif form == "onnxgen":
        build = [sys.executable, "-m", "onnxgen.cli", "build", checkpoint, "-o", output, "-p", "int4"]
        _run([*build, "--extra", "accuracy_level=4", "--extra", "head_bits=4"])  # the bits of the others
    elif form == "og":
        cache = output.with_suffix(".cache")
        builder = [export, "-m", "onnxruntime_genai.models.builder", "-i", checkpoint, "-o", output]
        options = ["int4_accuracy_level=4", "int4_block_size=32", "prune_lm_head=true"]
        _run([*builder, "-p", "int4", "-e", "cpu", "-c", cache, "--extra_options", *options])
        shutil.rmtree(cache, ignore_errors=True)
    elif form == "openvino":
        exporter = [
            export,
            Path(export).with_name("optimum-cli"),
            "export",
            "openvino",
            "--model",
            checkpoint,
        ]
        options = ["--weight-format", "int4", "--sym", "--group-size", "64", "--ratio", "1.0"]
        _run([*exporter, "--task", "text-generation-with-past", *options, output])
    else:
        weights = ["--checkpoint", checkpoint] if is_random else []
        _run([llamacpp, "-m", "benchmarks.peers.setup.gguf_files", output, "--gguf", gguf, *weights])


def _made_whole(path: Path, make: Callable[[Path], None]) -> None:
    """Make a file or folder under another name first, so that one that was interrupted is made again."""
    part = path.with_name(f"part-{path.name}")
    shutil.rmtree(part, ignore_errors=True)
    part.unlink(missing_ok=True)
    make(part)
    part.rename(path)


def _run(command: Sequence[str | Path]) -> None:
    subprocess.run(
        [str(word) for word in command], check=True, env=os.environ | {"TOKENIZERS_PARALLELISM": "false"}
    )


if __name__ == "__main__":
    main()
