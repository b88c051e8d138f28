"""Models described in a TOML file, or found in a folder."""

import pytest

from onnxgen.errors import ConfigError
from onnxgen.server.models.models_file import read_models
from tiny_model_folder import write_model_folder


def written(tmp_path, text):
    path = tmp_path / "models.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_everything_of_its_models(tmp_path):
    write_model_folder(tmp_path / "folders" / "tiny")
    (tmp_path / "style").mkdir()
    path = written(
        tmp_path,
        """
        [defaults]
        keep_alive_s = 600
        engine = { max_seqs = 4, cache_mb = 100 }

        [[model]]
        id = "org/chat"
        source = "smollm2"
        aliases = ["gpt-4o-mini"]
        warm_up = false
        defaults = { temperature = 0.2, stop = ["END"] }
        engine = { max_seqs = 8 }
        runtime = { threads = 1 }
        adapters = { mine = "style", elsewhere = "/a/b" }
        tool_call_format = "hermes"

        [[model]]
        id = "tiny"
        source = "folders/tiny"
        preload = false
        keep_alive_s = 0
        task = "embed"
        """,
    )
    chat, tiny = read_models(path)
    assert (chat.id, chat.source, chat.aliases) == ("org/chat", "smollm2", ("gpt-4o-mini",))
    assert (chat.warm_up, chat.preload, chat.keep_alive_s) == (False, True, 600.0)
    assert chat.engine == {"max_seqs": 8, "cache_mb": 100}
    assert chat.adapters == {"mine": str(tmp_path / "style"), "elsewhere": "/a/b"}
    assert chat.defaults == {"temperature": 0.2, "stop": ["END"]}
    assert tiny.source == str(tmp_path / "folders" / "tiny")
    assert (tiny.preload, tiny.keep_alive_s, tiny.task) == (False, 0.0, "embed")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "describes no model"),
        ("[[model]]\nid = 1", r"model 1: id is 1; expected a text|model 1 lacks source"),
        ("[[model]]\nid = 'a'", r"model 1 \(a\) lacks source"),
        ("[[model]]\nsource = 'a'", "model 1 lacks id"),
        ("[[model]]\nid = ''\nsource = 'a'", "id is ''; expected a text that is not empty"),
        (
            "[[model]]\nid = 'a'\nsource = 'b'\nalias = ['c']",
            r"model 1 \(a\): unknown key 'alias'; did you mean 'aliases'",
        ),
        ("[[models]]\nid = 'a'", "unknown key 'models'; did you mean 'model'"),
        ("[model]\nid = 'a'", r"describes no model; each one is a table \[\[model\]\]"),
        ("defaults = 3\n[[model]]\nid = 'a'\nsource = 'b'", "defaults is 3"),
        ("[[model]]\nid = 'a'\nsource = 'b'\naliases = 'c'", "aliases is 'c'; expected a list of names"),
        ("[[model]]\nid = 'a'\nsource = 'b'\npreload = 1", "preload is 1; expected true or false"),
        ("[[model]]\nid = 'a'\nsource = 'b'\nkeep_alive_s = -1", "keep_alive_s is -1; expected seconds"),
        ("[[model]]\nid = 'a'\nsource = 'b'\nkeep_alive_s = nan", "keep_alive_s is nan"),
        ("[[model]]\nid = 'a'\nsource = 'b'\ntask = 'rank'", "expected one of auto, generate, embed"),
        ("[[model]]\nid = 'a'\nsource = 'b'\nadapters = ['x']", "adapters is .* expected a table"),
        ("[[model]]\nid = 'a'\nsource = 'b'\nadapters = {x = 1}", "expected names and paths"),
        ("[[model]]\nid = 'a'\nsource = 'b'\ndefaults = {temprature = 1}", "did you mean 'temperature'"),
        ("[[model]]\nid = 'a'\nsource = 'b'\ndefaults = {temperature = -1}", "defaults: temperature"),
        ("[[model]", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named_with_file_table_and_key(tmp_path, text, said):
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=said) as caught:
        read_models(path)
    assert "models.toml" in str(caught.value)


def test_files_that_are_not_there_or_no_text_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_models(tmp_path / "none.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_models(tmp_path / "x.toml")


def test_a_folder_gives_its_model_folders_by_name_of_owner_and_model(tmp_path):
    write_model_folder(tmp_path / "Željko 模型")
    write_model_folder(tmp_path / "org" / "chat")
    (tmp_path / "org" / "notes").mkdir()
    encoder = tmp_path / "encoder"
    (encoder / "onnx").mkdir(parents=True)
    (encoder / "onnx" / "model.onnx").write_bytes(b"a graph")
    found = read_models(tmp_path)
    assert [entry.id for entry in found] == ["encoder", "org/chat", "Željko 模型"]
    assert found[1].source == str(tmp_path / "org" / "chat")
    assert not any(entry.preload for entry in found)


def test_a_folder_without_models_and_a_model_folder_itself_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"has no model folders in it$"):
        read_models(tmp_path)
    with pytest.raises(ConfigError, match="give it as MODEL"):
        read_models(write_model_folder(tmp_path / "tiny"))
