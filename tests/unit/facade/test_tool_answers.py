"""Golden answers with calls, the whole way: a model's template, its grammar, an engine, and what `LLM.chat` gives."""

import json
import re

import pytest

from answer_grammars import END, marker_texts
from chat_templates import chat_template, chat_tokenizer
from onnxgen.backends.fake import FakeBackend
from onnxgen.preprocess.tool_calls.formats import FORMATS
from tiny_model_folder import open_llm, write_model_folder
from tool_call_runs import DATA, cases

CONTEXT = 16384
TEMPLATES = [
    path
    for path in sorted((DATA / "templates").glob("*.jinja"))
    if not re.match("none|harmony|functionary-v3.2|hermes--thinking|.*words", path.stem)
]  # the others have no place for tools, or are of harmony
TOOLS = json.loads((DATA / "tools.json").read_text(encoding="utf-8"))
QUESTIONS = (
    "one call",
    "no parameters",
    "two calls",
    "text around",
    "text in front",
    "other writing systems",
    "plain text",
)


def write_folder(folder, template, *, special=(), plain=()):
    """A model folder with a vocabulary of bytes and markers."""
    write_model_folder(folder, context=CONTEXT)
    tokenizer = chat_tokenizer(folder, special=[END, *special], plain=list(plain))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "special_tokens_map.json").write_text(json.dumps({"eos_token": END}), encoding="utf-8")
    path = folder / "genai_config.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    end = tokenizer.token_to_id(END)
    document["model"] |= {"vocab_size": tokenizer.vocab_size, "eos_token_id": [end], "pad_token_id": end}
    del document["model"]["bos_token_id"]
    path.write_text(json.dumps(document), encoding="utf-8")
    return tokenizer


def answering(folder, tokenizer, template, answers, *, tools=TOOLS):
    """A model that answers each question with a text."""
    shown = chat_template(template, bos_token="", eos_token=END)
    prompts = {
        question: shown.prompt(tokenizer, asking(question), tools=tools).token_ids for question in answers
    }
    script = {tuple(prompts[question]): tokenizer.encode(text) for question, text in answers.items()}
    backend = FakeBackend(
        tokenizer.vocab_size,
        continuations=script,
        eos_token_id=tokenizer.token_to_id(END),
        max_context=CONTEXT,
        block_size=16,
    )
    return open_llm(folder, backend)


def asking(question):
    return [{"role": "user", "content": question}]


def said(calls):
    return [(call.name, call.arguments) for call in calls]


def streamed(llm, question, **options):
    """The last completion of a stream, after a look at whether the pieces add up to it."""
    chunks = list(llm.chat(asking(question), stream=True, **options))
    done = chunks[-1].completion
    assert "".join(chunk.text for chunk in chunks) == done.text
    assert "".join(chunk.reasoning for chunk in chunks) == done.reasoning
    assert [i for chunk in chunks for i in chunk.token_ids] == list(done.token_ids)
    assert [call for chunk in chunks for call in chunk.tool_calls] == list(done.tool_calls)
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == [done.finish_reason]
    return done


@pytest.mark.parametrize("tokens", [False, True], ids=["spelled", "tokens"])
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_golden_answers_give_their_calls(path, tokens, tmp_path):
    name, template = path.stem.partition("--")[0], path.read_text(encoding="utf-8")
    golden = {case["case"]: case for case in cases(name) if case["case"] in QUESTIONS}
    tokenizer = write_folder(
        tmp_path / "model", template, special=marker_texts(FORMATS[name]) if tokens else ()
    )
    answers = {question: case["text"] for question, case in golden.items()}
    with answering(tmp_path / "model", tokenizer, template, answers) as llm:
        for question, case in golden.items():
            expected = [(call["name"], call["arguments"]) for call in case["calls"]]
            dones = [streamed(llm, question, tools=TOOLS)]
            if question == "two calls":
                dones.append(llm.chat(asking(question), tools=TOOLS))
            for done in dones:
                assert (question, said(done.tool_calls)) == (question, expected)
                assert (question, done.text) == (question, case["content"])
                assert done.finish_reason == ("tool_calls" if expected else "eos")
                assert len({call.id for call in done.tool_calls}) == len(expected)


THINKING = """\
{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{{ tools | tojson }}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{# <think> </think> <tool_call>{"name": ..., "arguments": ...}</tool_call> #}"""


@pytest.mark.parametrize("special", [False, True])
def test_calls_in_thoughts_are_thoughts_and_those_after_them_are_calls(special, tmp_path):
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    markers = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
    tokenizer = write_folder(tmp_path / "model", THINKING, plain=markers if special else ())
    answers = {"think": f"<think>\nShall I {call}?\n</think>\n\n{call}", "plain": call}
    with answering(tmp_path / "model", tokenizer, THINKING, answers) as llm:
        for question in answers:
            done = streamed(llm, question, tools=TOOLS)
            assert said(done.tool_calls) == [("now", "{}")]
            assert done.reasoning == (f"Shall I {call}?" if question == "think" else "")
            assert (done.text, done.finish_reason) == ("", "tool_calls")


def test_a_call_that_is_cut_anywhere_is_text_and_nothing_of_it_is_lost(tmp_path):
    template = next(path for path in TEMPLATES if path.stem == "hermes--qwen").read_text(encoding="utf-8")
    text = 'So.\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    tokenizer = write_folder(tmp_path / "model", template)
    size = len(tokenizer.encode(text))
    with answering(tmp_path / "model", tokenizer, template, {"q": text}) as llm:
        for most in [*range(1, size, 5), size - 1]:
            done = streamed(llm, "q", tools=TOOLS, max_new_tokens=most)
            assert (done.text, done.tool_calls, done.finish_reason) == (text[:most], (), "length")
            assert done.usage.completion_tokens == len(done.token_ids) == most
        assert said(streamed(llm, "q", tools=TOOLS, max_new_tokens=size).tool_calls) == [("now", "{}")]
