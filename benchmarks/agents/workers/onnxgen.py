"""onnxgen's engine on one of its backends, step by step."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

from benchmarks.agents.workers.asking import Answered, Wish, serve_wishes

_CACHE_TOKENS = 8192


class Onnxgen:
    """A model folder of onnxgen."""

    def __init__(self, folder: Path, threads: int, backend: str) -> None:
        from onnxgen.backends import load_backend
        from onnxgen.engine.constraints.compiler import GrammarCompiler
        from onnxgen.foundations.runtime_config import RuntimeConfig
        from onnxgen.metadata import load_model_spec
        from onnxgen.preprocess.tokenizer import Tokenizer

        self._spec = load_model_spec(folder)
        self._backend = load_backend(self._spec.decoder, RuntimeConfig(backend=backend, threads=threads))
        size = self._backend.vocab_size
        tokenizer = Tokenizer.from_folder(folder, model_vocab_size=size)
        self._grammars = GrammarCompiler(tokenizer, vocab_size=size, eos_ids=self._spec.tokens.eos)

    def answer(self, wish: Wish) -> Answered:
        from onnxgen.engine.config import EngineConfig
        from onnxgen.engine.constraints.grammar import Grammar
        from onnxgen.engine.of_model import engine_of
        from onnxgen.engine.request import EngineRequest
        from onnxgen.engine.speculation.options import Speculation

        config = EngineConfig(max_seq_tokens=1024, cache_tokens=_CACHE_TOKENS, prefix_reuse=False)
        lookup = None
        if wish.drafts:
            lookup = Speculation("prompt_lookup", max_draft_tokens=wish.drafts, min_match=wish.match)
        with contextlib.closing(
            engine_of(self._spec, self._backend, config, grammars=self._grammars)
        ) as core:
            started = time.perf_counter()
            grammar = None
            if wish.schema is not None:
                grammar = Grammar.json_schema(wish.schema).with_fast_forward(wish.written)
            answers: dict[int, list[int]] = {}
            for prompt in wish.prompts:
                request = EngineRequest(
                    prompt,
                    max_new_tokens=wish.new_tokens,
                    ignore_eos=not wish.to_end,
                    grammar=grammar,
                    speculation=lookup,
                )
                answers[core.submit(request)] = []
            first = None
            while core.has_work:
                for event in core.step():
                    if event.error is not None:
                        raise event.error
                    if event.token_id is not None and not (wish.to_end and event.is_eos):
                        answers[event.request_id].append(event.token_id)
                if first is None and all(answers.values()):
                    first = time.perf_counter()
            ended = time.perf_counter()
        return Answered((first or ended) - started, ended - started, list(answers.values()))


if __name__ == "__main__":
    name = sys.argv[1]
    serve_wishes(
        lambda folder, threads: Onnxgen(folder, threads, name), ["onnxgen", "onnxruntime", "llguidance"]
    )
