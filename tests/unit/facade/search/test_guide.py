from __future__ import annotations

import random

import numpy as np
import pytest

import tiny_tokenizer
from onnxgen.engine.constraints.compiler import GrammarCompiler
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.facade.search.guide import Guide
from onnxgen.preprocess.tokenizer import Tokenizer
from tiny_tokenizer import EOS, VOCAB_SIZE


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_tokenizer.write_tokenizer(folder)
    return GrammarCompiler(Tokenizer.from_folder(folder), vocab_size=VOCAB_SIZE, eos_ids=[EOS])


def allowed(guide: Guide, drafted: tuple[int, ...] = ()) -> list[int]:
    row = guide.allowed(np.arange(VOCAB_SIZE, dtype=np.float32), drafted)
    tokens = np.flatnonzero(np.isfinite(row))
    assert (row[tokens] == tokens).all()
    return tokens.tolist()


def test_a_guide_is_where_a_fresh_one_would_be(compiler):
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    compiled = compiler.compile(Grammar.regex("(ab|c)*d"))
    guide = Guide(compiled.new_state(), vocab_size=VOCAB_SIZE)
    answers: list[tuple[int, list[tuple[int, int]]]] = [(-1, [])]
    length = 4
    for _ in range(300):
        choice = rng.random()
        if choice < 0.6:
            tokens = [token for token in allowed(guide) if token != EOS]
            if tokens:
                token = rng.choice(tokens)
                guide.add(token, length=length)
                answers[-1][1].append((length, token))
                length += 1
            else:
                guide.begin(length=length)
                answers.append((length, []))
                length += rng.randrange(1, 3)
        elif choice < 0.8:
            length = rng.randrange(2, length + 1)
            guide.rewind(length)
            answers = [
                (start, [(at, t) for at, t in own if at < length]) for start, own in answers if start < length
            ]
        else:
            guide = guide.fork()
        fresh = compiled.new_state()
        fresh.follow([token for _, token in answers[-1][1]])
        words = np.zeros((VOCAB_SIZE + 31) // 32, np.uint32)
        fresh.fill(words)
        want = [t for t in range(VOCAB_SIZE) if words[t // 32] >> (t % 32) & 1]
        assert allowed(guide) == want


def test_drafted_tokens_are_followed_and_forgotten(compiler):
    guide = Guide(compiler.compile(Grammar.choice(["thing", "a"])).new_state(), vocab_size=VOCAB_SIZE)
    before = allowed(guide)
    drafted = (before[0],)
    assert allowed(guide, drafted) != before
    assert allowed(guide) == before
