"""Settings of the server: flags over variables over the file, and what is said of wrong ones."""

from __future__ import annotations

import pytest

from onnxgen.errors import ConfigError
from onnxgen.foundations.config_sources import load_runtime_config
from onnxgen.server.settings import ServerSettings
from onnxgen.server.settings_sources import FIELDS, flag_of, is_list, read_settings, variable_of


@pytest.fixture
def config_file(tmp_path):
    def write(text: str):
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_flags_win_over_variables_and_variables_over_the_file(config_file):
    file = config_file(
        'threads = 3\n[serve]\nport = 1\nmax_seqs = 2\nhost = "0.0.0.0"\napi_key = ["a", "b"]\n'
    )
    environ = {"ONNXGEN_SERVE_PORT": "7", "ONNXGEN_SERVE_MAX_SEQS": " 5 ", "ONNXGEN_SERVE_POLICY": ""}
    settings = read_settings({"port": "9"}, environ=environ, config_file=file)
    assert (settings.port, settings.max_seqs, settings.host, settings.api_key) == (
        9,
        5,
        "0.0.0.0",
        ("a", "b"),
    )
    assert settings.policy == ServerSettings().policy


def test_what_is_the_servers_is_nothing_to_the_runtime_configuration(config_file):
    file = config_file("threads = 3\n[serve]\nport = 1\n")
    resolved = load_runtime_config(environ={"ONNXGEN_SERVE_PORT": "7"}, config_file=file)
    assert resolved.config.threads == 3


def test_without_any_source_there_are_defaults():
    assert read_settings({}, environ={}) == ServerSettings()


def test_lists_in_variables_are_separated_by_commas():
    settings = read_settings(
        {}, environ={"ONNXGEN_SERVE_ALLOWED_ORIGIN": "https://a.example, https://b.example,"}
    )
    assert settings.allowed_origin == ("https://a.example", "https://b.example")


@pytest.mark.parametrize(
    ("flags", "environ", "said"),
    [
        ({"port": "70000"}, {}, "--port is '70000'.*65535"),
        ({"drain_s": "inf"}, {}, "--drain-s is 'inf'.*finite"),
        ({"trusted_proxy": ("10.0.0.1", "proxy")}, {}, "--trusted-proxy.*'proxy' is no address"),
        ({"prot": "1"}, {}, "--prot.*did you mean 'port'"),
        ({}, {"ONNXGEN_SERVE_MAX_SEQS": "x"}, "ONNXGEN_SERVE_MAX_SEQS is 'x'"),
        ({}, {"ONNXGEN_SERVE_MAX_SEQ": "1"}, "ONNXGEN_SERVE_MAX_SEQ: .*did you mean 'max_seqs'"),
        ({"log_format": "xml"}, {}, "--log-format is 'xml'"),
        ({"drain_s": "-1"}, {}, "--drain-s"),
        ({"enable_page": "perhaps"}, {}, "--enable-page"),
    ],
)
def test_a_wrong_setting_is_named_with_its_source(flags, environ, said):
    with pytest.raises(ConfigError, match=said):
        read_settings(flags, environ=environ)


@pytest.mark.parametrize(
    ("text", "said"), [("serve = 3", r"a table \[serve\]"), ("[serve]\nhots = 'x'", "serve.hots.*'host'")]
)
def test_a_wrong_file_is_named(config_file, text, said):
    with pytest.raises(ConfigError, match=said):
        read_settings({}, environ={}, config_file=config_file(text))


def test_every_setting_says_what_it_is_and_has_names_of_its_own():
    assert all(field.description for field in FIELDS.values())
    for names in (map(flag_of, FIELDS), map(variable_of, FIELDS)):
        listed = list(names)
        assert len(set(listed)) == len(listed) == len(FIELDS)


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_default_can_be_said_as_a_text(name):
    default = getattr(ServerSettings(), name)
    if default is None or is_list(name) or default == "":
        return
    read = read_settings({}, environ={variable_of(name): str(default)})
    assert getattr(read, name) == default
