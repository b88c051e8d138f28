"""A model folder without a graph: metadata and a tokenizer, to be run by a scripted backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tiny_tokenizer
from onnxgen.backends.fake import FakeBackend
from onnxgen.facade.generator import Generator
from onnxgen.facade.llm import LLM
from onnxgen.facade.model import Model
from onnxgen.facade.params import GeneratorParams
from onnxgen.foundations.runtime_config import RuntimeConfig

CONTEXT = 128


def write_model_folder(folder: Path, *, context: int = CONTEXT, **search: Any) -> Path:
    """Write ``genai_config.json`` and the tokenizer's files."""
    folder.mkdir(parents=True, exist_ok=True)
    tiny_tokenizer.write_tokenizer(folder)
    document = {
        "model": {
            "type": "llama",
            "vocab_size": tiny_tokenizer.VOCAB_SIZE,
            "context_length": context,
            "bos_token_id": tiny_tokenizer.BOS,
            "eos_token_id": [tiny_tokenizer.EOS],
            "pad_token_id": tiny_tokenizer.PAD,
            "decoder": {
                "filename": "model.onnx",
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "head_size": 8,
                "hidden_size": 32,
                "session_options": {"provider_options": []},
                "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask"},
                "outputs": {"logits": "logits"},
            },
        },
        "search": search,
    }
    (folder / "model.onnx").write_bytes(b"a graph would be here")
    (folder / "genai_config.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def with_template(folder: Path, template: str) -> Path:
    """Give the folder another chat template."""
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**settings, "chat_template": template}), encoding="utf-8")
    return folder


def with_added_bos(folder: Path) -> Path:
    """Have the folder's tokenizer put its first special token before every text."""
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**settings, "add_bos_token": True}), encoding="utf-8")
    return folder


GAP_TOKENS = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")


def with_gap_tokens(folder: Path) -> int:
    """Give the folder's vocabulary the tokens around gaps, behind all others; returns the id of the first."""
    path, config = folder / "tokenizer.json", folder / "genai_config.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    size = max(document["model"]["vocab"].values()) + 1
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    document["added_tokens"] += [
        {"id": size + i, "content": token, "special": True, **flags} for i, token in enumerate(GAP_TOKENS)
    ]
    path.write_text(json.dumps(document), encoding="utf-8")
    facts = config.read_text(encoding="utf-8")
    rows = f'"vocab_size": {size + len(GAP_TOKENS)}'
    config.write_text(facts.replace(f'"vocab_size": {size}', rows), encoding="utf-8")
    return size


def fake_backend(**options: Any) -> FakeBackend:
    """A scripted backend that fits the folder."""
    return FakeBackend(**{"vocab_size": tiny_tokenizer.VOCAB_SIZE, "max_context": CONTEXT, **options})


def open_model(folder: Path, backend: Any, **config: Any) -> Model:
    """The folder, run by a backend of the test's choice."""
    return Model(folder, runtime=RuntimeConfig(**config), backend=backend)


def open_llm(folder: Path, backend: Any, *, clock: Any = None, **config: Any) -> LLM:
    """The folder, run by a backend of the test's choice."""
    more = {} if clock is None else {"clock": clock}
    return LLM(
        folder, config=RuntimeConfig(cache_dir=folder.parent / "cache", **config), backend=backend, **more
    )


def open_generator(folder: Path, backend: Any = None, **search: Any) -> Generator:
    """A generator on the folder, run by a backend of the test's choice."""
    model = open_model(folder, backend or fake_backend())
    params = GeneratorParams(model)
    params.set_search_options(**search)
    return Generator(model, params)
