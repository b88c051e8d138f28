import json

import pytest

from onnxgen.cli.commands.generate import last_completion


def test_the_answer_is_all_there_is_on_standard_output(onnxgen, llm):
    result = onnxgen("generate", "some-model", "hello there you")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "HELLO THERE YOU\n", "")
    assert llm.opened.model == "some-model" and llm.opened.precision == "int4"
    assert llm.closed


def test_json_has_exactly_the_promised_keys(onnxgen, llm):
    result = onnxgen("generate", "m", "héllo wörld", "--json")
    assert json.loads(result.stdout) == {
        "text": "HÉLLO WÖRLD",
        "token_ids": [100, 101],
        "finish_reason": "stop",
        "stop": None,
        "usage": {"prompt_tokens": 11, "completion_tokens": 2},
        "timings": {"load_s": 0.25, "ttft_s": 0.5, "prefill_tok_s": 42.0, "decode_tok_s": None},
    }
    assert result.stdout.count("\n") == 1 and result.stdout.isascii()


def test_options_reach_the_model(onnxgen, llm):
    onnxgen(
        *(
            "generate",
            "m",
            "x",
            "--max-new-tokens",
            5,
            "--min-new-tokens",
            2,
            "--temperature",
            0.5,
            "--top-k",
            3,
        ),
        *("--top-p", 0.9, "--repetition-penalty", 1.1, "--seed", 7, "--stop", "a", "--stop", "b\n"),
        *("--backend", "ort", "--threads", 2, "--precision", "int8"),
    )
    (options,) = llm.options
    assert (options.max_new_tokens, options.min_new_tokens, options.temperature) == (5, 2, 0.5)
    assert (options.top_k, options.top_p, options.repetition_penalty, options.seed) == (3, 0.9, 1.1, 7)
    assert tuple(options.stop) == ("a", "b\n")
    assert (llm.opened.config.backend, llm.opened.config.threads, llm.opened.precision) == ("ort", 2, "int8")


def test_what_is_not_given_is_the_models_choice(onnxgen, llm):
    onnxgen("generate", "m", "x")
    (options,) = llm.options
    assert (
        options.temperature
        is options.top_k
        is options.top_p
        is options.seed
        is options.max_new_tokens
        is None
    )


def test_a_chat_template_is_used_unless_raw(onnxgen, llm):
    onnxgen("generate", "m", "x", "--system", "be brief")
    assert llm.sessions[0].said == ["x"] and llm.sessions[0].system == "be brief"
    onnxgen("generate", "m", "y", "--raw")
    assert llm.raw_prompts == ["y"] and len(llm.sessions) == 1


def test_without_a_chat_template_text_is_continued(onnxgen, llm):
    llm.has_chat_template = False
    assert onnxgen("generate", "m", "x").exit_code == 0
    assert llm.raw_prompts == ["x"] and not llm.sessions


@pytest.mark.parametrize(("extra", "why"), [(["--raw"], "--raw leaves"), ([], "has no chat template")])
def test_a_system_message_needs_a_template(onnxgen, llm, extra, why):
    llm.has_chat_template = False
    result = onnxgen("generate", "m", "x", "--system", "be brief", *extra)
    assert result.exit_code == 2 and why in result.stderr and result.stdout == ""


def test_a_dash_reads_standard_input(onnxgen, llm):
    assert onnxgen("generate", "m", "-", input="from a pipe").stdout == "FROM A PIPE\n"
    result = onnxgen("generate", "m", "-", input="")
    assert result.exit_code == 2 and "nothing came" in result.stderr


def test_a_prompt_leaves_standard_input_alone(onnxgen, llm):
    assert onnxgen("generate", "m", "x", input="not read").stdout == "X\n"


def test_verbose_adds_numbers_on_standard_error(onnxgen, llm):
    result = onnxgen("generate", "m", "a b", "--verbose")
    assert result.stdout == "A B\n"
    assert "load 0.250 s; prompt 3 tokens (2 cached) at 42.0 tok/s; answer 2 tokens; " in result.stderr
    assert "peak memory" in result.stderr


def test_the_last_piece_carries_the_whole(llm):
    from onnxgen.facade.generation_options import GenerationOptions

    assert last_completion(llm.answer("a b c", GenerationOptions())).text == "A B C"


@pytest.mark.parametrize("command", ["generate", "run"])
def test_an_adapter_is_loaded_and_used(onnxgen, llm, command, tmp_path):
    result = onnxgen(command, "m", "x", "--adapter", tmp_path / "poems")
    assert result.exit_code == 0, result.stderr
    assert llm.adapters == {"poems": tmp_path / "poems"}
    assert llm.options[0].adapter == "poems"
    onnxgen(command, "m", "x")
    assert llm.options[1].adapter is None
    refused = onnxgen(command, "m", "x", "--adapter", tmp_path / "poems", "--set", "adapter=code")
    assert refused.exit_code != 0
    assert "cannot be given together" in refused.stderr


def test_names_in_json_that_are_numbers_are_ids_and_places(onnxgen, llm):
    settings = ("--set", 'logit_bias={"7": -5, " a": 2}', "--set", 'forced_tokens={"2": 11}')
    result = onnxgen("generate", "m", "x", *settings)
    assert result.exit_code == 0, result.stderr
    assert llm.options[0].logit_bias == {7: -5, " a": 2}
    assert llm.options[0].forced_tokens == {2: 11}


def test_options_of_prompts_reach_the_template(onnxgen, llm):
    onnxgen("generate", "m", "hi", "--set", "fold_system=true", "--set", 'template_variables={"a": 1}')
    assert llm.prompt_options.fold_system and llm.prompt_options.template_variables == {"a": 1}
    refused = onnxgen("generate", "m", "hi", "--raw", "--set", "fold_system=true")
    assert refused.exit_code == 2 and "--raw leaves the chat template out" in refused.stderr
    refused = onnxgen("generate", "m", "hi", "--set", "fold_sytem=true")
    assert refused.exit_code == 2 and "fold_system" in refused.stderr
