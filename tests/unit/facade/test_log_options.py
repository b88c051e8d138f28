import logging

import pytest

import onnxgen
from onnxgen.errors import CapabilityError, OptionError
from onnxgen.facade.log_options import TOLD, set_log_callback, set_log_options
from tiny_model_folder import fake_backend, open_model, write_model_folder
from tiny_tokenizer import EOS

ON = dict.fromkeys(TOLD, True)


@pytest.fixture(autouse=True)
def restored():
    package = logging.getLogger("onnxgen")
    level = package.level
    yield package
    set_log_callback(None)
    set_log_options(**dict.fromkeys(TOLD, False))
    package.setLevel(level)


@pytest.fixture
def generator(tmp_path):
    backend = fake_backend(continuations={(5, 6): (7, 8)}, eos_token_id=EOS)
    model = open_model(write_model_folder(tmp_path / "m"), backend)
    return onnxgen.Generator(model, onnxgen.GeneratorParams(model))


def run(generator):
    generator.append_tokens([5, 6])
    while not generator.is_done():
        generator.generate_next_token()


def test_messages_are_switched_on_and_off(restored):
    set_log_options(enabled=True, warning=True, ansi_tags=False, model_logits=False)
    assert restored.level == logging.INFO
    set_log_options(enabled=False)
    assert restored.level == logging.WARNING


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"enable": True}, OptionError, "did you mean 'enabled'"),
        ({"enabled": 1}, OptionError, "must be True or False"),
        ({"enabled": True, "model_input_values": True}, CapabilityError, "model_input_values"),
        ({"filename": 5}, OptionError, "filename must be a path"),
    ],
    ids=str,
)
def test_what_cannot_be_logged_is_refused_and_changes_nothing(restored, options, error, message):
    restored.setLevel(logging.ERROR)
    with pytest.raises(error, match=message):
        set_log_options(**options)
    assert restored.level == logging.ERROR


def test_a_callback_hears_what_was_switched_on(generator):
    heard = []
    set_log_callback(heard.append)
    set_log_options(enabled=True, hit_eos=True, append_next_tokens=True)
    run(generator)
    assert heard == ["2 tokens appended to each row, 2 in all", "all rows are finished after 4 tokens"]
    set_log_options(generate_next_token=True)
    generator.rewind_to(0)
    run(generator)
    assert "token 3: [7]" in heard and "token 4: [8]" in heard
    count = len(heard)
    set_log_callback(None)
    generator.rewind_to(0)
    run(generator)
    assert len(heard) == count


def test_nothing_is_told_while_messages_are_off(generator):
    heard = []
    set_log_callback(heard.append)
    set_log_options(enabled=False, **ON)
    run(generator)
    assert heard == []


def test_a_file_takes_the_place_of_a_callback(generator, tmp_path):
    heard, path = [], tmp_path / "log.txt"
    set_log_callback(heard.append)
    set_log_options(enabled=True, filename=str(path), **ON)
    run(generator)
    assert "token 3: [7]" in path.read_text() and not heard
    set_log_options(filename="")
    written = path.read_text()
    generator.rewind_to(0)
    run(generator)
    assert path.read_text() == written


def test_the_longest_length_is_told(tmp_path):
    heard = []
    model = open_model(write_model_folder(tmp_path / "m"), fake_backend())
    params = onnxgen.GeneratorParams(model)
    params.set_search_options(max_length=4)
    set_log_callback(heard.append)
    set_log_options(enabled=True, hit_max_length=True)
    run(onnxgen.Generator(model, params))
    assert heard == ["max_length 4 is reached"]


def test_what_cannot_be_written_or_called_is_refused(tmp_path):
    with pytest.raises(OptionError, match="cannot be written"):
        set_log_options(filename=str(tmp_path / "no" / "such" / "folder.txt"))
    with pytest.raises(OptionError, match="must be a function"):
        set_log_callback("print")
