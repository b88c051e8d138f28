import signal

from onnxgen.errors import ContextLengthError, OptionError


def test_one_question_one_answer(onnxgen, llm):
    result = onnxgen("run", "m", "hello you", "--system", "be brief", "--seed", 3)
    assert (result.exit_code, result.stdout) == (0, "HELLO YOU\n")
    assert llm.sessions[0].system == "be brief" and llm.options[0].seed == 3
    assert llm.closed


def test_piped_input_is_put_after_the_prompt(onnxgen, llm):
    onnxgen("run", "m", "sum up:", input="line 1\nline 2\n")
    assert llm.sessions[0].said == ["sum up:\n\nline 1\nline 2"]
    onnxgen("run", "m", "-", input="line 1\nline 2\n")
    assert llm.sessions[1].said == ["line 1\nline 2\n"]


def test_interrupting_a_one_shot_answer_exits_with_130(onnxgen, llm):
    llm.on_word = lambda word: signal.raise_signal(signal.SIGINT)
    result = onnxgen("run", "m", "one two three")
    assert (result.exit_code, result.stdout) == (130, "ONE\n")


def test_lines_of_a_pipe_are_a_conversation(onnxgen, llm):
    result = onnxgen("run", "m", input='hello\n\n"""two\nlines"""\n/exit\nnever\n')
    assert result.exit_code == 0
    assert result.stdout == "HELLO\nTWO\nLINES\n"
    assert llm.sessions[0].said == ["hello", "two\nlines"]
    assert "one message per line" in result.stderr


def test_interrupting_an_answer_keeps_the_conversation(onnxgen, llm):
    words = []

    def interrupt_once(word):
        words.append(word)
        if len(words) == 1:
            signal.raise_signal(signal.SIGINT)

    llm.on_word = interrupt_once
    result = onnxgen("run", "m", input="one two three\n/stats\nfour five\n/stats\n")
    assert result.exit_code == 0
    assert "last answer: answer 1 tokens, stopped" in result.stderr
    assert "session: 2 answers, 3 tokens" in result.stderr
    assert result.stdout == "ONE\nFOUR FIVE\n"
    assert "stopped" in result.stderr
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_commands_are_not_sent(onnxgen, llm):
    script = [
        *("/help", "/stats", "hello", "/stats", "/system", "/system be kind", "/system", "/system -"),
        *("/reset", "/sistem x", "/nonsense", "//slash", "/exit"),
    ]
    result = onnxgen("run", "m", input="\n".join(script))
    (session,) = llm.sessions
    assert session.said == ["hello", "/slash"]
    assert result.stdout == "HELLO\n/SLASH\n"
    for text in (
        "/reset         forget",
        "there was no answer yet",
        "last answer: prompt 5 tokens (2 cached)",
        "session: 1 answers, 1 tokens",
        "there is no system message",
        "system message: be kind",
        "without a system message",
        "/sistem is not a command; did you mean '/system'?",
        "/nonsense is not a command. /help lists them",
    ):
        assert text in result.stderr, text
    assert session.system is None and session.resets == 3


def test_an_error_keeps_the_conversation(onnxgen, llm):
    errors = [ContextLengthError("70 tokens do not fit 64"), None, OptionError("no"), None]
    answer = llm.answer

    def failing(text, options):
        llm.fail_with = errors.pop(0)
        return answer(text, options)

    llm.answer = failing
    result = onnxgen("run", "m", input="one\ntwo\nthree\nfour\n")
    assert (result.exit_code, result.stdout) == (0, "TWO\nFOUR\n")
    assert "error: 70 tokens do not fit 64" in result.stderr and "/reset begins a new" in result.stderr


def test_a_base_model_completes_each_line(onnxgen, llm):
    llm.has_chat_template = False
    result = onnxgen("run", "m", input="once upon\n/system x\n/reset\na time\n")
    assert llm.raw_prompts == ["once upon", "a time"]
    assert "no chat template, so no place for a system message" in result.stderr


def test_verbose_tells_numbers_after_each_answer(onnxgen, llm):
    result = onnxgen("run", "m", "-v", input="one\ntwo two\n")
    assert result.stderr.count("finish: stop") == 2


def test_an_unfinished_block_at_the_end_of_input_is_a_message(onnxgen, llm):
    onnxgen("run", "m", input='"""open\nblock')
    assert llm.sessions[0].said == ["open\nblock"]
