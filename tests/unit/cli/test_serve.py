"""``onnxgen serve`` before it serves: its flags, and ``--check``."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from onnxgen.cli.serve_flags import with_settings
from onnxgen.server.settings_sources import FIELDS, variable_of
from server_doubles import TEMPLATE
from tiny_model_folder import with_template, write_model_folder


@pytest.fixture
def folder(tmp_path):
    return with_template(write_model_folder(tmp_path / "little"), TEMPLATE)


def test_help_names_every_setting_and_its_variable(onnxgen):
    text = " ".join(onnxgen("serve", "--help").stdout.split())
    for name in FIELDS:
        shown = "MODEL" if name == "model" else f"--{name.replace('_', '-')}"
        assert shown in text
        assert name == "model" or variable_of(name) in text.replace(" ", "")


def test_other_commands_do_not_load_the_servers_libraries():
    code = "import sys, onnxgen.cli.app; print([m for m in ('fastapi', 'pydantic', 'uvicorn') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_it_is_listed_with_the_other_commands(onnxgen):
    listed = onnxgen("--help").stdout
    assert listed.index("  generate ") < listed.index("  serve ") < listed.index("  pull ")


def test_a_command_is_given_only_what_was_given():
    seen = {}

    def command(ctx, *, given, other=3):
        seen.update(given=given, other=other)

    with_settings(command)(
        ctx=None, other=4, **{**dict.fromkeys(FIELDS), "port": "7", "api_key": [], "preload": False}
    )
    assert seen == {"given": {"port": "7", "preload": False}, "other": 4}


def test_check_says_what_would_be_served_and_where(onnxgen, folder):
    result = onnxgen("serve", folder, "--check", "--port", 0, "--default", "temperature=0.5")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "little: can be served"
    said = {line.split()[0]: line for line in lines[1:]}
    assert "128 tokens" in said["context"] and "temperature 0.5" in said["sampling"]
    assert "http://127.0.0.1:" in said["would"]


def test_a_port_that_is_taken_is_a_clear_error(onnxgen, folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = onnxgen("serve", folder, "--check", "--port", port)
    assert result.exit_code == 2
    assert f"port {port} of 127.0.0.1 is taken" in result.stderr and "--port" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "192.0.2.1"], "192.0.2.1 is no address of this machine"),
        (["--max-seqs", "0"], "--max-seqs is '0'"),
        (["--default", "temperature=x"], "temperature must be a number"),
        (["--default", "temprature=1"], "did you mean 'temperature'"),
        (["--tool-call-format", "hermess"], "hermes"),
        (["--adapter", "a=nowhere"], "nowhere"),
        (["--api-key-file", "nowhere"], "nowhere"),
        (["--chat-template", "nowhere"], "the chat template nowhere cannot be read"),
        (["--policy", "nobody"], "nobody"),
        (["--models", "nowhere.toml"], "give one of them"),
        (["--disk-tier-mb", "5"], "disk_tier_dir"),
        (["--speculation", "guess"], "guess"),
        (["--draft-model", "nowhere"], "nowhere"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_loaded(onnxgen, folder, arguments, said):
    result = onnxgen("serve", folder, "--check", "--port", 0, *arguments)
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith("error: ") and said in result.stderr
    assert "defect of onnxgen" not in result.stderr


@pytest.mark.parametrize("arguments", [[], ["nowhere"]])
def test_a_model_that_is_not_there_is_an_error(onnxgen, arguments):
    result = onnxgen("serve", *arguments, "--check", "--port", 0)
    assert result.exit_code in (1, 2) and result.stderr.startswith("error: ")


def test_a_broken_folder_is_an_error(onnxgen, folder):
    (folder / "tokenizer.json").write_text("{", encoding="utf-8")
    result = onnxgen("serve", folder, "--check", "--port", 0)
    assert result.exit_code == 1 and "tokenizer.json" in result.stderr
