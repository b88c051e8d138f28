import numpy as np
import pytest

from grammar_vocabularies import (
    END,
    KINDS,
    MARKERS,
    OTHER_END,
    SPECIALS,
    allowed,
    bits,
    byte_level,
    bytes_as_tokens,
    bytes_of,
    compiler_for,
    new_mask,
    random_walk,
)
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import GrammarError

OBJECT = Grammar.json_schema(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "ab": {"type": "array", "items": {"enum": [True, False, "name", -12]}, "maxItems": 4},
            "nothing": {"const": None},
        },
        "required": ["name", "nothing"],
        "additionalProperties": False,
    }
)
# In words that WordPiece can write without a blank before each.
GRAMMARS = {
    "object": OBJECT,
    "regex": Grammar.regex(r"[a-c]{2,7}(12)*"),
    "choice": Grammar.choice(["name", "nam", "tr", "true", '{"name": "a"}', ""]),
    "lark": Grammar.lark('start: item ("," item)*\nitem: "ab" | /[0-9]+/ | "[" start "]"'),
}


@pytest.fixture(params=KINDS, scope="module")
def tokenizer(request, tmp_path_factory):
    return KINDS[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def compiler(tokenizer):
    found = compiler_for(tokenizer)
    yield found
    found.close()


@pytest.fixture
def rng(request):
    seed = getattr(request, "param", None) or np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed)


@pytest.fixture(params=GRAMMARS)
def compiled(request, compiler, tokenizer):
    # A blank stands before most words of WordPiece.
    if tokenizer.token_to_id("##ame") is not None:
        word_piece = Grammar.regex(r"( ?[a-z0-9{}:,\"\[\]]){1,12}")
        return compiler.compile(word_piece)
    return compiler.compile(GRAMMARS[request.param])


def fresh(compiled, tokens):
    state = compiled.new_state()
    state.follow(tokens)
    return state


def same_place(one, other, compiler):
    assert (allowed(one, compiler) == allowed(other, compiler)).all()
    assert one.num_tokens == other.num_tokens
    assert one.forced() == other.forced()
    assert (one.is_complete, one.accepts_end) == (other.is_complete, other.accepts_end)


def walks(compiled, compiler, tokenizer, rng, *, count=4):
    found = [random_walk(compiled, compiler, tokenizer, rng) for _ in range(count)]
    return [walk for walk in found if walk is not None]


# With the second seed, taking tokens back from llguidance's matcher leaves it with wrong masks.
@pytest.mark.parametrize("rng", [None, 251967904473493468370726754525329203997], indirect=True)
def test_after_going_back_a_state_is_as_a_fresh_one(compiled, compiler, tokenizer, rng):
    answers = walks(compiled, compiler, tokenizer, rng)
    assert answers
    state = compiled.new_state()
    for _ in range(30):
        answer = answers[rng.integers(len(answers))]
        answer = answer[: rng.integers(len(answer) + 1)]
        if rng.random() < 0.3:
            state.forced()
        state.follow(np.asarray(answer, np.int64) if rng.random() < 0.5 else answer)
        same_place(state, fresh(compiled, answer), compiler)


def test_going_back_and_forth_between_answers_leaves_nothing_behind(bytes_tokenizer):
    compiler = compiler_for(bytes_tokenizer)
    compiled = compiler.compile(
        Grammar.json_schema(
            {
                "type": "object",
                "properties": {
                    "ab": {"type": "array", "items": {"enum": [True, -12]}, "maxItems": 4},
                    "nothing": {"const": None},
                },
                "required": ["nothing"],
                "additionalProperties": False,
            }
        )
    )
    texts = (
        '{"ab":[true,-12, true],"nothing": nul',
        '{ "ab" : [',
        '{"ab":[-12\t,true] ,"nothing" : ',
        '{ "ab" : [], "nothing"  :null ',
    )
    state = compiled.new_state()
    for text in texts:
        answer = bytes_as_tokens(bytes_tokenizer, text)
        state.follow(answer)
        same_place(state, fresh(compiled, answer), compiler)
    following = {bytes_tokenizer.token_bytes(int(token))[:1] for token in allowed(state, compiler)}
    assert b"}" in following and following <= {b" ", b"\t", b"\n", b"\r", b"}"}


def test_what_was_looked_at_ahead_leaves_nothing_behind(compiled, compiler, tokenizer, rng):
    answers = walks(compiled, compiler, tokenizer, rng)
    answer = answers[0]
    state = compiled.new_state()
    for place in range(len(answer) + 1):
        state.follow(answer[:place])
        for other in answers:
            draft = [*answer[place : place + 2], *other[place : place + 6]]
            masks = np.zeros((len(draft) + 1, len(new_mask(compiler))), np.uint32)
            state.fill_along(masks, draft)
            count = state.valid_prefix(draft)
            assert not masks[count + 1 :].any()
            assert (
                bits(masks[count]) == allowed(fresh(compiled, [*answer[:place], *draft[:count]]), compiler)
            ).all()
        same_place(state, fresh(compiled, answer[:place]), compiler)


def test_a_mask_allows_what_can_be_followed_and_nothing_else(compiled, compiler, tokenizer, rng):
    for answer in walks(compiled, compiler, tokenizer, rng, count=2):
        cut = answer[: rng.integers(len(answer) + 1)]
        state = fresh(compiled, cut)
        tokens = allowed(state, compiler)
        assert (np.isin(compiler.eos_ids, tokens) == state.accepts_end).all()
        for token in rng.choice(tokens, min(20, len(tokens)), replace=False):
            fresh(compiled, [*cut, int(token)])
        forced = state.forced()
        if len(tokens) > 1 and not forced:
            others = np.setdiff1d(np.arange(compiler.vocab_size), tokens)
            for token in rng.choice(others, 20):
                if state.valid_prefix([int(token)]):
                    # Part of what is forced, cut otherwise than the tokenizer would.
                    assert tokenizer.token_bytes(int(token))
                else:
                    with pytest.raises(GrammarError, match=f"token {token} may not come at place {len(cut)}"):
                        fresh(compiled, [*cut, int(token)])


def test_masks_along_a_draft_are_those_of_its_steps(compiled, compiler, tokenizer, rng):
    for answer in walks(compiled, compiler, tokenizer, rng):
        answer = [*answer, compiler.eos_ids[1], compiler.eos_ids[0]]
        start = int(rng.integers(len(answer)))
        draft = answer[start : start + int(rng.integers(1, 9))]
        state = fresh(compiled, answer[:start])
        masks = np.zeros((len(draft) + 1, len(new_mask(compiler))), np.uint32)
        state.fill_along(masks, draft)
        for place, mask in enumerate(masks):
            assert (bits(mask) == allowed(fresh(compiled, answer[: start + place]), compiler)).all()
        assert state.valid_prefix(draft) == len(draft)
        same_place(state, fresh(compiled, answer[:start]), compiler)


def test_a_wrong_token_ends_a_draft(compiled, compiler, tokenizer, rng):
    never = tokenizer.token_to_id(SPECIALS[-1])
    if never is None:
        pytest.skip("this vocabulary has no such token")
    answer = walks(compiled, compiler, tokenizer, rng)[0]
    draft = [*answer, never, answer[0] if answer else never]
    state = compiled.new_state()
    assert state.valid_prefix(draft) == len(answer)
    assert state.valid_prefix([compiler.vocab_size + 5]) == state.valid_prefix([-1]) == 0
    masks = np.full((len(draft) + 1, len(new_mask(compiler))), 7, np.uint32)
    state.fill_along(masks, draft)
    assert (masks[len(answer) + 1 :] == 7).all()
    same_place(state, compiled.new_state(), compiler)


def test_forced_tokens_are_part_of_every_answer(compiled, compiler, tokenizer, rng):
    for answer in walks(compiled, compiler, tokenizer, rng):
        for place in range(len(answer) + 1):
            state = fresh(compiled, answer[:place])
            forced = state.forced()
            assert not set(forced) & set(compiler.eos_ids)
            rest = bytes_of(tokenizer, answer[place:])
            assert rest.startswith(bytes_of(tokenizer, forced)), "a shorter way was cut off"
            for done, token in enumerate(forced):
                assert allowed(state, compiler).tolist() == [token]
                state.follow([*answer[:place], *forced[: done + 1]])
            same_place(state, fresh(compiled, [*answer[:place], *forced]), compiler)


def test_a_fork_goes_its_own_way(compiled, compiler, tokenizer, rng):
    one, other = (walks(compiled, compiler, tokenizer, rng) * 2)[:2]
    state = fresh(compiled, one[: len(one) // 2])
    twin = state.fork()
    twin.follow(other)
    same_place(state, fresh(compiled, one[: len(one) // 2]), compiler)
    state.follow(one)
    same_place(twin, fresh(compiled, other), compiler)


def test_after_the_end_only_the_end_may_come(compiled, compiler, tokenizer, rng):
    answer = walks(compiled, compiler, tokenizer, rng)[0]
    end, other_end = compiler.eos_ids
    state = fresh(compiled, [*answer, end])
    assert state.is_complete and state.accepts_end and state.forced() == ()
    assert allowed(state, compiler).tolist() == sorted(compiler.eos_ids)
    state.follow([*answer, end, other_end])
    assert state.num_tokens == len(answer) + 2
    with pytest.raises(GrammarError):
        state.follow([*answer, end, answer[0] if answer else 0])
    assert state.num_tokens == len(answer) + 1, "it is where the tokens before lead"
    state.follow(answer)
    same_place(state, fresh(compiled, answer), compiler)


@pytest.fixture
def bytes_tokenizer(tmp_path):
    return byte_level(tmp_path)


def test_forced_tokens_are_those_of_the_tokenizer(compiler, tokenizer):
    if tokenizer.token_to_id("##ame") is not None:
        state = compiler.compile(Grammar.choice(["true"])).new_state()
        assert state.forced() == (), "no text has tokens of its own here"
        return
    text = '{"name": true, "ab": [12, "éa"]}'
    state = compiler.compile(Grammar.choice([text])).new_state()
    written = tokenizer.encode("\n" + text, parse_special=False)
    canonical = next(written[n:] for n in range(1, 4) if bytes_of(tokenizer, written[n:]) == text.encode())
    forced = list(state.forced())
    assert len(forced) > 5
    assert forced == canonical[: len(forced)]


def test_nothing_is_forced_when_it_is_not_wanted(bytes_tokenizer):
    compiler = compiler_for(bytes_tokenizer)
    assert compiler.compile(Grammar.choice(["name"])).new_state().forced()
    assert compiler.compile(Grammar.choice(["name"]).with_fast_forward(False)).new_state().forced() == ()


def test_special_tokens_come_only_where_they_are_named(bytes_tokenizer):
    compiler = compiler_for(bytes_tokenizer)
    quoted = bytes_tokenizer.token_to_id(SPECIALS[2])
    marker = bytes_tokenizer.token_to_id(MARKERS[0])
    state = compiler.compile(Grammar.choice(['"a"', "<tool_call>"])).new_state()
    assert not {quoted, marker} & set(allowed(state, compiler).tolist())
    state = compiler.compile(Grammar.lark(f'start: /[^x]*/ {MARKERS[0]} "ab" {SPECIALS[3]}')).new_state()
    state.follow([*bytes_tokenizer.encode("a<tool_call", parse_special=False), marker])
    assert state.forced()[:1] == (bytes_tokenizer.token_to_id("ab"),)
    state = compiler.compile(Grammar.lark(f"start: <[{quoted}]>")).new_state()
    assert allowed(state, compiler).tolist() == [quoted] and state.forced() == (quoted,)


@pytest.mark.parametrize("pad_rows", [-7, 0, 1, 31, 32, 1000])
def test_rows_without_a_token_are_never_allowed(bytes_tokenizer, pad_rows, rng):
    # A narrow model has no rows for the tokens at the end, ends included.
    ends = [300] if pad_rows < 0 else None
    compiler = compiler_for(bytes_tokenizer, pad_rows=pad_rows, eos_ids=ends and [0])
    state = compiler.compile(Grammar.regex(r"(.|\n)*")).new_state()
    tokens = allowed(state, compiler)
    assert tokens.max() < min(bytes_tokenizer.vocab_size, compiler.vocab_size)
    assert not {100, 101} & set(tokens.tolist()), "ids in the middle that are no token"
    assert len(tokens) > 200
    with pytest.raises(GrammarError):
        state.follow([100])


@pytest.mark.parametrize("token", [-1, 10**6, 2**40])
def test_an_id_outside_the_vocabulary_leaves_the_state_as_it_was(bytes_tokenizer, token):
    compiler = compiler_for(bytes_tokenizer)
    state = compiler.compile(Grammar.regex("a{5}")).new_state()
    a = bytes_tokenizer.token_to_id("a")
    with pytest.raises(GrammarError, match=f"token {token} may not come at place 1"):
        state.follow([a, token])
    state.follow([a, a])
    same_place(state, fresh(compiler.compile(Grammar.regex("a{5}")), [a, a]), compiler)


def test_a_mask_of_another_size_is_refused(bytes_tokenizer):
    compiler = compiler_for(bytes_tokenizer)
    state = compiler.compile(Grammar.json_object()).new_state()
    good = new_mask(compiler)
    for bad in (good[:-1], good.astype(np.int64), np.zeros((2 * len(good),), np.uint32)[::2]):
        with pytest.raises(ValueError, match="a mask is uint32"):
            state.fill(bad)


def test_an_end_token_that_a_grammar_names_ends_the_answer(bytes_tokenizer):
    compiler = compiler_for(bytes_tokenizer)
    end = bytes_tokenizer.token_to_id(OTHER_END)
    state = compiler.compile(Grammar.lark(f'start: "a" {OTHER_END} "b"')).new_state()
    a, b = bytes_tokenizer.token_to_id("a"), bytes_tokenizer.token_to_id("b")
    state.follow([a])
    assert not state.accepts_end and allowed(state, compiler).tolist() == [end]
    assert state.valid_prefix([end, b]) == 1
    state.follow([a, end])
    assert state.is_complete and state.accepts_end
    with pytest.raises(GrammarError):
        state.follow([a, end, b])
    state.follow([a])
    assert allowed(state, compiler).tolist() == [end]


def test_a_grammar_without_an_end_token_is_refused(bytes_tokenizer):
    compiler = compiler_for(bytes_tokenizer, eos_ids=[])
    with pytest.raises(GrammarError, match="a token that ends an answer"):
        compiler.compile(Grammar.json_object())
    compiler = compiler_for(bytes_tokenizer, eos_ids=[10_000])
    with pytest.raises(GrammarError, match="end token 10000 is outside the vocabulary"):
        compiler.compile(Grammar.json_object())


def test_a_text_that_no_tokens_have_is_refused(tmp_path):
    word_piece = KINDS["word_piece"](tmp_path)
    compiler = compiler_for(word_piece)
    with pytest.raises(GrammarError):
        compiler.compile(Grammar.choice(["é"]))
    assert word_piece.token_to_id(END) in compiler.eos_ids
