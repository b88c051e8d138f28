import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from chat_templates import chat_tokenizer
from decoder_kinds import FALLBACK
from onnxgen.errors import CapabilityError
from onnxgen.preprocess.fim import FimFormat, fim_prompt, find_fim_format
from onnxgen.preprocess.tokenizer import Tokenizer

QWEN = [
    "<|endoftext|>",
    "<|im_end|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
]
STAR = [
    "<|endoftext|>",
    "<fim_prefix>",
    "<fim_middle>",
    "<fim_suffix>",
    "<fim_pad>",
    "<repo_name>",
    "<file_sep>",
]
FAMILIES = {
    "qwen": (QWEN, "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>"),
    "codegemma": (["<bos>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|file_separator|>"], "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>"),
    "starcoder2": (STAR, "<fim_prefix>a<fim_suffix>b<fim_middle>"),
    "granite": (["<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<filename>", "<reponame>"], "<fim_prefix>a<fim_suffix>b<fim_middle>"),
    "santacoder": (["<|endoftext|>", "<fim-prefix>", "<fim-middle>", "<fim-suffix>"], "<fim-prefix>a<fim-suffix>b<fim-middle>"),
    "deepseek": (["<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>"], "<｜fim▁begin｜>a<｜fim▁hole｜>b<｜fim▁end｜>"),
    "glm": (["<|endoftext|>", "<|code_prefix|>", "<|code_middle|>", "<|code_suffix|>"], "<|code_prefix|>a<|code_suffix|>b<|code_middle|>"),
    "codestral": (["<s>", "[PREFIX]", "[SUFFIX]", "[MIDDLE]"], "[SUFFIX]b[PREFIX]a"),
}  # fmt: skip


def shown(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_has_its_own_order(tmp_path, family):
    special, expected = FAMILIES[family]
    tokenizer = chat_tokenizer(tmp_path, special=special, plain=[])
    prompt = fim_prompt(tokenizer, "a", "b")
    assert shown(tokenizer, prompt.token_ids) == expected
    assert sum(i in tokenizer.special_ids for i in prompt.token_ids) == (2 if family == "codestral" else 3)


def stops(tokenizer, **options):
    return {tokenizer.id_to_token(i) for i in fim_prompt(tokenizer, "a", "b", **options).stop_ids}


def test_more_tokens_than_usual_end_what_is_filled_in(tmp_path):
    tokenizer = chat_tokenizer(tmp_path, special=QWEN, plain=[])
    assert stops(tokenizer) == set(QWEN) - {"<|im_end|>"}
    tokenizer = chat_tokenizer(tmp_path, special=FAMILIES["codestral"][0], plain=[])
    assert stops(tokenizer) == {"[PREFIX]", "[SUFFIX]"}


def test_files_of_a_repository(tmp_path):
    tokenizer = chat_tokenizer(tmp_path, special=QWEN, plain=[])
    options = {"file": "c.py", "repository": "r", "context": {"a.py": "A", "b.py": "B\n"}}
    assert shown(tokenizer, fim_prompt(tokenizer, "x", "y", **options).token_ids) == (
        "<|repo_name|>r\n<|file_sep|>a.py\nA\n<|file_sep|>b.py\nB\n\n<|file_sep|>c.py\n"
        "<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>"
    )
    tokenizer = chat_tokenizer(tmp_path, special=STAR, plain=[])
    assert shown(tokenizer, fim_prompt(tokenizer, "x", "y", **options).token_ids) == (
        "<repo_name>r<file_sep>a.py\nA<file_sep>b.py\nB\n<file_sep><fim_prefix>c.py\nx<fim_suffix>y<fim_middle>"
    )
    assert shown(tokenizer, fim_prompt(tokenizer, "x", "y", context={"a": "A"}).token_ids) == (
        "<file_sep>a\nA<file_sep><fim_prefix>x<fim_suffix>y<fim_middle>"
    )


@pytest.mark.parametrize("option", [{"file": "a"}, {"repository": "r"}, {"context": {"a": "b"}}])
def test_models_that_were_shown_no_files_take_none(tmp_path, option):
    tokenizer = chat_tokenizer(tmp_path, special=FAMILIES["deepseek"][0], plain=[])
    with pytest.raises(CapabilityError, match="not trained with names of files"):
        fim_prompt(tokenizer, "a", "b", **option)


def test_a_model_without_the_tokens_says_so(tmp_path):
    tokenizer = chat_tokenizer(tmp_path, special=["<s>", "<fim_prefix>"], plain=[])
    assert find_fim_format(tokenizer) is None
    with pytest.raises(CapabilityError, match="no tokens for filling in the middle"):
        fim_prompt(tokenizer, "a", "b")
    with pytest.raises(CapabilityError, match="no token '<fim_suffix>'"):
        fim_prompt(tokenizer, "a", "b", format=FimFormat("<fim_prefix>", "<fim_suffix>", None))


@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("special", [True, False])
@given(parts=st.lists(st.sampled_from([*QWEN, "def f(", "\n", " "]), max_size=6))
def test_texts_hold_no_control_tokens(tmp_path_factory, special, parts):
    if special not in _CACHE:
        kinds = {"special": QWEN, "plain": []} if special else {"special": [], "plain": QWEN}
        _CACHE[special] = chat_tokenizer(tmp_path_factory.mktemp("fim"), **kinds)
    tokenizer, text = _CACHE[special], "".join(part for part in parts if special or part != "<|im_end|>")
    prompt = fim_prompt(tokenizer, text, text, file=text, repository=text, context={text: text})
    controls = [tokenizer.id_to_token(i) for i in prompt.token_ids if i >= 256]
    assert shown(tokenizer, prompt.token_ids).count(text) >= (6 if text else 0)
    expected = [
        "<|repo_name|>",
        "<|file_sep|>",
        "<|file_sep|>",
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
    ]
    assert controls == expected


_CACHE = {}


@pytest.mark.parametrize(("special", "order"), [
    (["<s>", "</s>", "▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"], "<s> ▁<PRE> ▁d e f ▁<SUF> x ▁y ▁<MID>"),
    (["<s>", "</s>", "[PREFIX]", "[SUFFIX]"], "<s> [SUFFIX] x ▁y [PREFIX] ▁d e f"),
])  # fmt: skip
def test_only_the_prefix_begins_with_the_blank_of_a_text(tmp_path, special, order):
    pieces = [*FALLBACK, "▁", "▁d", "d", "e", "f", "x", "▁x", "y", "▁y"]
    backend = Backend(
        models.BPE(
            {t: i for i, t in enumerate(pieces)}, [("▁", "d"), ("▁", "x"), ("▁", "y")], byte_fallback=True
        )
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    backend.decoder = decoders.Metaspace()
    backend.add_special_tokens([AddedToken(t, normalized=False) for t in special])
    begin = backend.token_to_id("<s>")
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
    backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<s>"}')
    tokenizer = Tokenizer.from_folder(tmp_path)
    prompt = fim_prompt(tokenizer, "def", "x y")
    assert " ".join(map(tokenizer.id_to_token, prompt.token_ids)) == order
