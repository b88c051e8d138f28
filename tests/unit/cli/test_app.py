import subprocess
import sys
from importlib.metadata import version

import pytest

from onnxgen.errors import (
    BackendError,
    ConfigError,
    ContextLengthError,
    DownloadError,
    ModelFileError,
    ModelNotFoundError,
    OptionError,
)

COMMANDS = [
    "run",
    "generate",
    "serve",
    "pull",
    "build",
    "list",
    "show",
    "bench",
    "check-trace",
    "rm",
    "doctor",
    "version",
]


def test_without_arguments_help_is_shown(onnxgen):
    result = onnxgen()
    assert result.exit_code == 0
    assert result.stdout == onnxgen("--help").stdout
    assert all(f"  {command} " in result.stdout for command in COMMANDS)
    assert "..." not in result.stdout.partition("Commands:")[2]  # every line says what it has to say


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(onnxgen, command):
    result = onnxgen(command, "-h")
    assert result.exit_code == 0
    assert f"onnxgen {command}" in result.stdout or f"{command} [OPTIONS]" in result.stdout


@pytest.mark.parametrize("arguments", [("version",), ("--version",)])
def test_the_version_is_the_installed_one(onnxgen, arguments):
    result = onnxgen(*arguments)
    assert (result.exit_code, result.stdout) == (0, f"onnxgen {version('onnxgen')}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("--nonsense",),
        ("generate", "model"),
        ("generate", "model", "prompt", "--temperature", "warm"),
        ("generate", "model", "prompt", "--temperature", "-1"),
        ("generate", "model", "prompt", "--top-p", "1.5"),
        ("generate", "model", "prompt", "--threads", "0"),
        ("generate", "model", "prompt", "--max-new-tokens", "0"),
        ("build", "source"),
        ("pull",),
        ("rm",),
    ],
)
def test_wrong_usage_exits_with_2(onnxgen, llm, arguments):
    result = onnxgen(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error" in result.stderr
    assert not hasattr(llm, "opened")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OptionError("bad option"), 2),
        (ConfigError("bad configuration"), 2),
        (ModelNotFoundError("no such model"), 1),
        (DownloadError("no network"), 1),
        (ModelFileError("truncated"), 1),
        (ContextLengthError("9 of 8"), 1),
        (BackendError("failed"), 1),
        (PermissionError(13, "Permission denied", "/some/file"), 1),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 1),
        (TypeError("a defect"), 1),
    ],
)
def test_an_exception_becomes_an_exit_code(onnxgen, llm, error, code):
    llm.fail_with = error
    result = onnxgen("generate", "model", "prompt")
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert llm.closed


def test_one_message_says_what_is_wrong(onnxgen, llm):
    llm.fail_with = ModelFileError("model.onnx is truncated; fetch it again")
    assert onnxgen("generate", "model", "x").stderr == "error: model.onnx is truncated; fetch it again\n"
    llm.fail_with = PermissionError(13, "Permission denied", "/some/file")
    assert onnxgen("generate", "model", "x").stderr == "error: /some/file: Permission denied\n"


@pytest.mark.parametrize(
    "arguments", [("-v", "generate", "m", "x"), ("generate", "m", "x", "--verbose"), ("run", "m", "x", "-v")]
)
def test_verbose_shows_the_traceback(onnxgen, llm, arguments):
    llm.fail_with = ModelFileError("truncated")
    result = onnxgen(*arguments)
    assert result.stderr.startswith("Traceback") and result.stderr.endswith("error: truncated\n")


def test_global_options_may_stand_before_or_after_the_command(onnxgen, llm, tmp_path):
    file = tmp_path / "my settings.toml"
    file.write_text("threads = 3\nprefill_chunk_tokens = 7\n")
    for arguments in (("--config", file, "generate", "m", "x"), ("generate", "m", "x", "--config", file)):
        assert onnxgen(*arguments).exit_code == 0
        assert llm.opened.config.prefill_chunk_tokens == 7
        assert llm.opened.config.threads == 3
    onnxgen("--config", file, "generate", "m", "x", "--threads", "5")
    assert llm.opened.config.threads == 5


def test_the_module_starts_without_heavy_imports():
    heavy = ["onnxruntime", "onnx", "onnx_ir", "numpy", "gguf", "tokenizers", "jinja2", "prompt_toolkit"]
    heavy += ["rich", "huggingface_hub", "yaml"]
    code = f"import sys, onnxgen.cli.app; print(sorted(set({heavy}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_the_command_is_installed_and_quiet_when_its_reader_leaves():
    script = f"{sys.executable} -m onnxgen.cli --help | true; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1)  # it may be done before its reader leaves
    assert result.stderr == ""
