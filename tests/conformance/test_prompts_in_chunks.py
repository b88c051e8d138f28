"""A prompt that is read in chunks gets the answer that it gets in one piece, for every form of weights."""

import pytest

from checkpoints import CHECKPOINTS
from gguf_checkpoints import write_gguf_checkpoint
from onnxgen.builder import build
from onnxgen.builder.options import BuildOptions
from onnxgen.facade.llm import LLM
from onnxgen.foundations.runtime_config import RuntimeConfig

PROMPT = "a prompt that is longer than a chunk or two"


@pytest.mark.parametrize("options", [BuildOptions(), BuildOptions(requantize=True)], ids=["exact", "again"])
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_1", "Q8_0", "F16"])
def test_chunks_change_nothing(kind, options, tmp_path):
    write_gguf_checkpoint(CHECKPOINTS["llama"], tmp_path / "model.gguf", kind)
    folder = build(tmp_path / "model.gguf", tmp_path / "model", options=options).output
    answers = [_answer(folder, tmp_path / "cache", chunk) for chunk in (512, 7, 1)]
    assert answers[1:] == answers[:1] * 2


def _answer(folder, cache, chunk):
    config = RuntimeConfig(cache_dir=cache, threads=1, prefill_chunk_tokens=chunk)
    with LLM(folder, config=config) as llm:
        assert len(llm.tokenizer.encode(PROMPT)) > 2 * 7
        return llm.generate(PROMPT, max_new_tokens=12, temperature=0, ignore_eos=True).token_ids
