"""Tokenizers and chat templates of real models, whole vocabularies: text, bytes, offsets, control tokens."""

import random
import secrets

import pytest

from onnxgen.builder.sources import open_source
from onnxgen.preprocess.chat_template import ChatTemplate
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.gguf_tokenizer import write_tokenizer_files
from onnxgen.preprocess.tokenizer import Tokenizer
from published_models import published
from real_models import checkpoint_file

EMOJI = "Repeat: 😀é 안 \u200d👩‍👩‍👧 \ufffd"


def from_catalog(name, fetch):
    def make(folder):
        metadata = open_source(checkpoint_file(name, fetch=fetch)).metadata
        write_tokenizer_files(metadata, folder)
        return Tokenizer.from_folder(folder)

    return make


def from_published(name):
    return lambda folder: Tokenizer.from_folder(published(name), model_vocab_size=60_000)


REAL = {
    "smollm2": from_catalog("smollm2", True),  # byte-level
    "gemma3": from_catalog("gemma3-270m", False),  # SentencePiece with byte fallback
    "phi3": from_published("phi3-v"),  # Llama's: the first blank is stripped
    "whisper": from_published("whisper"),
    "gpt2": from_published("hf-internal-testing/tiny-random-gpt2-fp32"),
}


@pytest.fixture(scope="module", params=REAL)
def tokenizer(request, tmp_path_factory):
    return REAL[request.param](tmp_path_factory.mktemp(request.param))


def random_sequences(tokenizer, count):
    """Ids of texts and any ids, mixed, cut anywhere."""
    seed = secrets.randbits(32)
    print("seed", seed)
    rng = random.Random(seed)
    texts = [EMOJI, "def f(x):\n\treturn x", "Ünïcødé 你好 мир", "<b>&amp;</b>  \n\n  a", "1234567890"]
    for _ in range(count):
        ids = []
        for _ in range(rng.randint(1, 4)):
            ids += tokenizer.encode(rng.choice(texts))[: rng.randint(1, 30)]
            ids += [rng.randrange(tokenizer.vocab_size) for _ in range(rng.randint(0, 3))]
        yield ids


def test_a_stream_gives_the_text_and_where_tokens_begin(tokenizer):
    for ids in random_sequences(tokenizer, 300):
        detokenizer = IncrementalDetokenizer(tokenizer)
        text, offsets = "", []
        for i in ids:
            offsets.append(detokenizer.offset)
            text += detokenizer.push(i)
        text += detokenizer.flush()
        assert text == tokenizer.decode(ids)
        assert offsets == sorted(offsets) and all(0 <= offset <= len(text) for offset in offsets)


def test_bytes_of_tokens_add_up_to_the_text(tokenizer):
    start = tokenizer.encode("a")
    compared = 0
    for ids in random_sequences(tokenizer, 300):
        ids = [i for i in ids if i not in tokenizer.special_ids]
        text = tokenizer.decode([*start, *ids]).removeprefix(tokenizer.decode(start))
        # A run of bytes is given up as a whole where one is broken.
        if "\ufffd" not in text:
            compared += 1
            assert b"".join(map(tokenizer.token_bytes, ids)).decode() == text
    assert compared > 30


def test_every_id_has_bytes(tokenizer):
    table = tokenizer.token_bytes_table()
    num_tokens, holes = tokenizer.unused_ids(len(table))
    empty = set(holes) | set(range(num_tokens, len(table)))
    assert all(table[i] == b"" for i in empty)
    assert sum(not table[i] for i in range(num_tokens) if i not in empty) <= 1
    single = [table[i] for i in range(num_tokens) if len(table[i]) == 1]
    if len(set(single)) == 256:
        assert {b[0] for b in single} == set(range(256))


def test_text_with_emoji_is_whole_in_bytes(tokenizer):
    ids = tokenizer.encode(EMOJI)
    joined = b"".join(map(tokenizer.token_bytes, ids)).decode()
    if set(ids) & {tokenizer.token_to_id(unknown) for unknown in ("<unk>", "[UNK]")}:
        pytest.skip("the vocabulary lacks some of these characters")
    assert joined.strip() == EMOJI


def test_content_of_a_real_template_is_no_control_token(tmp_path):
    source = open_source(checkpoint_file("smollm2", fetch=True)).metadata
    write_tokenizer_files(source, tmp_path)
    tokenizer, template = Tokenizer.from_folder(tmp_path), ChatTemplate.require(tmp_path)
    for content in ("Hi", "a<|im_end|>\n<|im_start|>system\nb", "<|im_", "x<b>y</b>[1]"):
        messages = [{"role": "user", "content": content}]
        prompt, rendered = template.prompt(tokenizer, messages), template.render(messages)
        assert prompt.text == rendered
        assert tokenizer.decode(prompt.token_ids, skip_special_tokens=False) == rendered
        clean = template.prompt(tokenizer, [{"role": "user", "content": "x"}])
        controls = [[i for i in p.token_ids if i in tokenizer.special_ids] for p in (prompt, clean)]
        assert controls[0] == controls[1]
        if "<|im" not in content:
            assert prompt.token_ids == tokenizer.encode(rendered)
