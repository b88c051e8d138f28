"""Grammars and guesses of ``import onnxruntime_genai as og`` and of ``import onnxgen as og`` give the same tokens and counts."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import onnxgen
import tiny_tokenizer
from bigram_models import write_bigram_folder
from published_models import published

genai = pytest.importorskip("onnxruntime_genai", reason="needs the extra: interop")

pytestmark = pytest.mark.interop

GPT2 = "hf-internal-testing/tiny-random-gpt2-fp32"
DRAWN = {"do_sample": True, "top_k": 30, "temperature": 0.9}
# counts of runs and clocks are each runtime's own
THEIR_OWN = ("_ms", "speedup", "throughput", "target_", "draft_forward", "ngram_history", "histogram")


def answer(og, model, prompt, *, guidance=None, speculative=None, **search):
    params = og.GeneratorParams(model)
    params.set_search_options(**search)
    if guidance is not None:
        params.set_guidance(*guidance)
    if speculative is not None:
        params.set_speculative_options(**speculative)
    generator = og.Generator(model, params)
    generator.append_tokens(np.array([prompt], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return generator.get_sequence(0).tolist(), generator.get_speculative_stats()


def comparable(stats):
    return {name: value for name, value in stats.items() if not any(part in name for part in THEIR_OWN)}


@pytest.fixture(scope="module")
def gpt2():
    path = published(GPT2)
    return onnxgen.Model(path), genai.Model(str(path))


# theirs fails where the first token is forced, and lets JSON have any white space, of which ours has bounds
COMPACT = {"x-guidance": {"whitespace_flexible": False}}
ARRAY = {"type": "array", "items": {"enum": ["x", "yy", "z"]}, "maxItems": 4}
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    "guidance",
    [
        ("regex", "[0-9]{3}-[a-z]+ (yes|no)"),
        ("regex", "(ab|cd){2,6}"),
        ("json_schema", json.dumps({"anyOf": [ARRAY, {"type": "integer"}], **COMPACT})),
        ("json_schema", json.dumps({"anyOf": [OBJECT, {"type": "number"}, {"type": "string"}], **COMPACT})),
        ("lark_grammar", 'start: NAME "(" NAME ")"\nNAME: /[a-z]{3,5}/'),
    ],
    ids=str,
)
@pytest.mark.parametrize("search", [{}, {**DRAWN, "random_seed": 5}, {**DRAWN, "random_seed": 77}], ids=str)
def test_a_grammar_gives_their_tokens(gpt2, guidance, search):
    prompt = [0, 0, 52, 7]
    options = {"max_length": len(prompt) + 40, **search}
    ours, theirs = gpt2
    expected, _ = answer(genai, theirs, prompt, guidance=guidance, **options)
    assert answer(onnxgen, ours, prompt, guidance=guidance, **options)[0] == expected


@pytest.fixture(scope="module")
def speaking(tmp_path_factory):
    """A model without a cache, to which theirs can append several tokens, with a tokenizer."""
    rng = np.random.default_rng(11)
    table = rng.normal(size=(tiny_tokenizer.VOCAB_SIZE,) * 2).astype(np.float32)
    path = write_bigram_folder(
        tmp_path_factory.mktemp("model") / "speaking", table, eos=(tiny_tokenizer.EOS,), context=200
    )
    tiny_tokenizer.write_tokenizer(path)
    return onnxgen.Model(path), genai.Model(str(path))


@pytest.mark.parametrize("search", [{}, {**DRAWN, "random_seed": 5}, {**DRAWN, "random_seed": 77}], ids=str)
@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize(
    "speculative", [None, {"ngram_size": 2, "max_draft_tokens": 4}, {"ngram_size": 3, "max_draft_tokens": 7}]
)
def test_forced_tokens_and_guesses_are_theirs_under_a_grammar(speaking, search, forced, speculative):
    ours, theirs = speaking
    guidance = ("lark_grammar", 'start: (/[ab]/ " is what it is; ")+ "end"', forced)
    options = {"max_length": 90, "guidance": guidance, **search}
    expected, _ = answer(genai, theirs, [5, 6], **options)
    got, stats = answer(onnxgen, ours, [5, 6], speculative=speculative, **options)
    assert got == expected
    assert not speculative or stats["draft_tokens_proposed"]
    assert answer(genai, theirs, [5, 6], speculative=speculative, **options)[0] == expected


@pytest.fixture(scope="module")
def bigrams(tmp_path_factory):
    """A model that repeats itself."""
    rng = np.random.default_rng(5)
    table = rng.normal(scale=0.7, size=(60, 60)).astype(np.float32)
    table[np.arange(60), (np.arange(60) * 3 + 5) % 7 + 4] += 3
    path = write_bigram_folder(tmp_path_factory.mktemp("model") / "bigrams", table, eos=(3,))
    return path, onnxgen.Model(path), genai.Model(str(path))


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("width", [2, 3, 8])
@pytest.mark.parametrize("cooldown", [False, True])
def test_ngrams_give_their_tokens_and_counts(bigrams, chained, width, cooldown):
    _, ours, theirs = bigrams
    rng = np.random.default_rng(width)
    speculative = {
        "ngram_size": width % 3 + 2,
        "max_draft_tokens": width,
        "ngram_chained_lookup": chained,
        "cooldown": cooldown,
    }
    accepted = 0
    for seed in range(12):
        prompt = rng.integers(4, 11, 6).tolist()
        search = {"max_length": 60, **({"random_seed": seed, **DRAWN} if seed % 2 else {})}
        expected, want = answer(genai, theirs, prompt, speculative=speculative, **search)
        got, stats = answer(onnxgen, ours, prompt, speculative=speculative, **search)
        assert got == expected == answer(onnxgen, ours, prompt, **search)[0]
        assert comparable(stats) == pytest.approx(comparable(want))
        assert stats.keys() == want.keys()
        accepted += stats["draft_tokens_accepted"]
    assert accepted


def test_reports_have_their_names_and_types(bigrams):
    _, ours, theirs = bigrams
    _, want = answer(genai, theirs, [4, 5, 4, 5], speculative={"ngram_size": 2}, max_length=20)
    _, got = answer(onnxgen, ours, [4, 5, 4, 5], speculative={"ngram_size": 2}, max_length=20)
    assert {name: type(value) for name, value in got.items()} == {n: type(v) for n, v in want.items()}


@pytest.fixture(scope="module")
def drafted(tmp_path_factory):
    """A folder with a draft that is often right."""
    folder = tmp_path_factory.mktemp("model") / "drafted"
    rng = np.random.default_rng(8)
    table = rng.normal(scale=1.5, size=(60, 60)).astype(np.float32)
    near = table + rng.normal(scale=0.6, size=table.shape).astype(np.float32)
    write_bigram_folder(folder.parent / "draft", near, eos=(3,))
    write_bigram_folder(folder, table, eos=(3,))
    shutil.copy(folder.parent / "draft" / "model.onnx", folder / "draft.onnx")
    document = json.loads((folder / "genai_config.json").read_text())
    document["model"]["draft"] = {**document["model"]["decoder"], "filename": "draft.onnx"}
    (folder / "genai_config.json").write_text(json.dumps(document))
    return onnxgen.Model(folder), genai.Model(str(folder))


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize(
    "search",
    [{}, {"repetition_penalty": 1.3}, DRAWN, {**DRAWN, "top_k": 0, "top_p": 0.9}, {**DRAWN, "top_p": 0.8}],
    ids=str,
)
def test_a_draft_model_gives_their_tokens_and_counts(drafted, width, search):
    ours, theirs = drafted
    accepted = corrected = 0
    for seed in range(10):
        options = {"max_length": 40, "random_seed": seed, **search}
        speculative = {"max_draft_tokens": width}
        expected, want = answer(genai, theirs, [7, 9], speculative=speculative, **options)
        got, stats = answer(onnxgen, ours, [7, 9], speculative=speculative, **options)
        assert got == expected
        assert comparable(stats) == pytest.approx(comparable(want))
        accepted += stats["draft_tokens_accepted"]
        corrected += stats["correction_tokens"]
    assert accepted and corrected
