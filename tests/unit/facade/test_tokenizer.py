import numpy as np
import pytest

import tiny_tokenizer
from onnxgen.errors import CapabilityError, ChatTemplateError, OptionError, TokenIdError, TokenizerError
from onnxgen.facade.config import Config
from onnxgen.facade.tensor import Tensor
from onnxgen.facade.tokenizer import Tokenizer
from tiny_model_folder import fake_backend, open_model, write_model_folder

TEXT = "the other thing 😀é 안"


@pytest.fixture
def folder(tmp_path):
    return write_model_folder(tmp_path / "model")


@pytest.fixture
def tokenizer(folder):
    return Tokenizer(folder)


def test_it_opens_from_a_model_a_config_or_a_path(folder):
    expected = Tokenizer(folder).encode(TEXT).tolist()
    for source in (open_model(folder, fake_backend()), Config(folder), str(folder)):
        assert Tokenizer(source).encode(TEXT).tolist() == expected


def test_text_round_trips(tokenizer):
    ids = tokenizer.encode(TEXT)
    assert ids.dtype == np.int32
    assert ids.ndim == 1
    assert tokenizer.decode(ids) == TEXT
    assert tokenizer.decode(ids.tolist()) == TEXT
    assert tokenizer.decode(Tensor(ids)) == TEXT


def test_one_id_is_decoded_too(tokenizer):
    assert tokenizer.decode(tokenizer.to_token_id("the")) == "the"
    assert tokenizer.decode(np.int32(tokenizer.to_token_id("the"))) == "the"


def test_nothing_decodes_to_nothing_and_text_is_no_id(tokenizer):
    assert tokenizer.decode([]) == ""
    for ids in ("the", [1.5]):
        with pytest.raises(TokenIdError, match="must be integers"):
            tokenizer.decode(ids)


def test_batches_are_padded_on_the_right(tokenizer):
    batch = tokenizer.encode_batch(["the", "the the the"])
    rows = batch.as_numpy()
    assert rows.dtype == np.int32
    assert rows[0].tolist() == [*tokenizer.encode("the"), tiny_tokenizer.PAD, tiny_tokenizer.PAD]
    assert tokenizer.decode_batch(batch) == ["the", "the the the"]
    with pytest.raises(OptionError, match="at least one text"):
        tokenizer.encode_batch([])


def test_a_stream_gives_the_same_text_in_pieces(tokenizer):
    ids = tokenizer.encode(TEXT)
    stream = tokenizer.create_stream()
    pieces = [stream.decode(i) for i in ids]
    assert "".join(pieces) + stream.flush() == TEXT
    assert not any("�" in piece for piece in pieces)


def test_special_ids_are_known_or_refused(tokenizer):
    assert tokenizer.bos_token_id == tiny_tokenizer.BOS
    assert tokenizer.eos_token_ids.tolist() == [tiny_tokenizer.EOS]
    assert tokenizer.pad_token_id == tiny_tokenizer.PAD
    for name in ("bot_token_id", "eot_token_id", "bor_token_id", "eor_token_id"):
        with pytest.raises(CapabilityError, match=f"{name} is not defined"):
            getattr(tokenizer, name)


def test_special_tokens_are_left_out_unless_asked_for(tokenizer):
    ids = [tiny_tokenizer.BOS, *tokenizer.encode("the")]
    assert tokenizer.decode(ids) == "the"
    tokenizer.update_options(skip_special_tokens="false")
    assert tokenizer.decode(ids) == "<|bos|>the"
    stream = tokenizer.create_stream()
    assert "".join(stream.decode(i) for i in ids) + stream.flush() == "<|bos|>the"


def test_unknown_options_are_refused_and_nothing_changes(tokenizer):
    with pytest.raises(OptionError, match="did you mean 'skip_special_tokens'"):
        tokenizer.update_options(add_special_tokens=True, skip_special_token=False)
    for value in ("maybe", 1, None):
        with pytest.raises(OptionError, match="add_special_tokens must be 'true' or 'false'"):
            tokenizer.update_options(add_special_tokens=value)
    for value in ("[]", "{", 5):
        with pytest.raises(OptionError, match="chat_template_kwargs"):
            tokenizer.update_options(chat_template_kwargs=value)
    assert tokenizer.decode([tiny_tokenizer.BOS]) == ""


def test_a_token_that_does_not_exist_is_refused(tokenizer):
    assert tokenizer.to_token_id("<|eos|>") == tiny_tokenizer.EOS
    with pytest.raises(OptionError, match="'nope' is not a token"):
        tokenizer.to_token_id("nope")


@pytest.mark.parametrize("bad", [-1, tiny_tokenizer.VOCAB_SIZE])
def test_ids_outside_the_vocabulary_are_refused(tokenizer, bad):
    with pytest.raises(TokenIdError, match=str(bad)):
        tokenizer.decode([bad])
    with pytest.raises(TokenIdError, match=str(bad)):
        tokenizer.create_stream().decode(bad)


def test_chat_templates_take_lists_and_json(tokenizer):
    expected = "<|bos|>[user]hi<|eos|>[assistant]"
    messages = [{"role": "user", "content": "hi"}]
    assert tokenizer.apply_chat_template(messages) == expected
    assert (
        tokenizer.apply_chat_template('[{"role": "user", "content": "hi"}]', tools="", template_str="")
        == expected
    )
    assert tokenizer.apply_chat_template(messages, add_generation_prompt=False) == "<|bos|>[user]hi<|eos|>"


def test_a_template_of_ones_own_sees_tools_and_variables(tokenizer):
    tokenizer.update_options(chat_template_kwargs='{"mood": "good"}')
    template = "{{ mood }} {{ tools[0].name }} {{ messages[0].content }}"
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "x"}], template_str=template, tools='[{"name": "f"}]'
    )
    assert prompt == "good f x"


@pytest.mark.parametrize(
    ("messages", "error"),
    [("{", OptionError), ("{}", ChatTemplateError), (5, ChatTemplateError), ('"x"', ChatTemplateError)],
)
def test_messages_that_are_no_list_are_refused(tokenizer, messages, error):
    with pytest.raises(error, match="messages"):
        tokenizer.apply_chat_template(messages)


def test_a_missing_tokenizer_is_named(folder):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        Tokenizer(folder)
