"""What is shown of a configuration has no secrets in it."""

import json

import pytest

from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.overview.shown_settings import HIDDEN, hidden, shown_entry, shown_settings
from onnxgen.server.settings import ServerSettings


def test_every_setting_that_is_a_key_is_hidden_and_every_other_one_shown():
    fields = ServerSettings.model_fields
    secret = [name for name in fields if "key" in name.split("_") and not name.endswith("_file")]
    assert {"api_key", "admin_key"} <= set(secret)
    settings = ServerSettings(**dict.fromkeys(secret, ("bob=s3cret-a", "s3cret-b")))
    shown = shown_settings(settings)
    assert "s3cret" not in json.dumps(shown)
    assert shown.keys() == fields.keys()
    for name in secret:
        assert shown[name] == [f"bob={HIDDEN}", HIDDEN]


@pytest.mark.parametrize("key", ["c2VjcmV0==", "c2VjcmV0=", "c2VjcmV0", "=c2VjcmV0", "two words=c2VjcmV0"])
def test_a_key_without_a_name_is_hidden_whole(key):
    # padding of base64 looks like a name
    assert shown_settings(ServerSettings(api_key=(key,)))["api_key"] == [HIDDEN]


@pytest.mark.parametrize(
    "name", ["api_key", "HF_TOKEN", "access-token", "client_secret", "password", "credential", "Key"]
)
def test_options_that_sound_secret_are_hidden(name):
    entry = ModelEntry("m", "folder", runtime={"provider_options": {"X": {name: "s3cret", "size": 3}}})
    shown = shown_entry(entry)
    assert shown["runtime"]["provider_options"]["X"] == {name: HIDDEN, "size": 3}


def test_values_are_in_types_of_json():
    json.dumps(hidden({"a": (1, None, True, 2.5), "b": {"c": {"set"}}, "monkey": ServerSettings}))
    assert hidden({"monkey": "x", "max_tokens": 5, "tokens": "x"}) == {
        "monkey": "x",
        "max_tokens": 5,
        "tokens": "x",
    }
