"""onnxruntime-genai: its generator loop; several sequences are a batch of one generator."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.agents.workers.asking import Answered, Wish, serve_wishes

ALL_LOGITS = "og-all-logits"
"""The folder beside the program's model that guesses need: with logits of all tokens, not of a prompt's last one alone."""


class Genai:
    """A model folder of onnxruntime-genai."""

    def __init__(self, folder: Path, threads: int) -> None:
        import onnxruntime_genai

        self._api = onnxruntime_genai
        self._folder, self._threads = folder, threads
        self._model = self._load(folder)
        self._with_all_logits: Any = None

    def _load(self, folder: Path) -> Any:
        config = self._api.Config(str(folder))
        options = {"intra_op_num_threads": self._threads}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        return self._api.Model(config)

    def answer(self, wish: Wish) -> Answered:
        length, count = len(wish.prompts[0]), len(wish.prompts)
        total = length + wish.new_tokens
        model = self._model
        if wish.drafts:
            self._with_all_logits = self._with_all_logits or self._load(self._folder.with_name(ALL_LOGITS))
            model = self._with_all_logits
        started = time.perf_counter()
        params = self._api.GeneratorParams(model)
        params.set_search_options(do_sample=False, max_length=total, batch_size=count)
        if wish.schema is None and not wish.to_end:
            params.set_search_options(min_length=total)  # a schema that is long enough does the same
        if wish.schema is not None:
            params.set_guidance("json_schema", wish.schema, wish.written)
        if wish.drafts:
            params.set_speculative_options(ngram_size=wish.match, max_draft_tokens=wish.drafts)
        generator = self._api.Generator(model, params)
        generator.append_tokens(np.array(wish.prompts, np.int32).squeeze())
        generator.generate_next_token()
        first = time.perf_counter()
        while not generator.is_done():
            generator.generate_next_token()
        ended = time.perf_counter()
        answers = [[int(token) for token in generator.get_sequence(i)[length:]] for i in range(count)]
        return Answered(first - started, ended - started, answers)


if __name__ == "__main__":
    serve_wishes(Genai, ["onnxruntime-genai", "onnxruntime"])
