"""How the models of published families mark reasoning: found by their templates, split at every point, cut anywhere."""

import pytest

from chat_templates import chat_tokenizer
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.reasoning import ReasoningSplitter, split_reasoning
from onnxgen.preprocess.reasoning_markers import PromptState, find_reasoning_markers, prompt_state

TEMPLATES = {
    "qwen3": "{{ '<think>\\n\\n</think>' }}",
    "magistral": "[THINK]{{ part.thinking }}[/THINK]",
    "seed-oss": "<seed:think>{{ m.reasoning_content }}</seed:think>",
    "command-a": "<|START_THINKING|>{{ m.reasoning_content }}<|END_THINKING|>",
    "gemma-4": "{{ '<|channel>thought\\n' + m.reasoning + '<channel|>' }}",
    "minimax-m2": "]~b]ai\n<think>\n{{ m.reasoning_content }}</think>",
    "nemotron": "{{ m.content.split('</think>') }}<think></think>",
    "glm-4.5": "<think></think>",
    "granite-3.2": "Write your thoughts after 'Here is my thought process:' and 'Here is my response:' after that.",
    "apertus": "<|inner_prefix|>{{ block.text }}<|inner_suffix|>",
    "kimi": "◁think▷◁/think▷",
    "exaone": "<thought>{{ m.thought }}</thought>",
}


@pytest.fixture(scope="module", params=[False, True], ids=["spelled", "tokens"])
def vocabulary(request, tmp_path_factory):
    marks = ["<think>", "</think>", "[THINK]", "[/THINK]", "<|START_THINKING|>", "<|END_THINKING|>", "<|channel>",
             "<channel|>", "<|inner_prefix|>", "<|inner_suffix|>", "<seed:think>", "</seed:think>"]  # fmt: skip
    folder = tmp_path_factory.mktemp("vocabulary")
    return chat_tokenizer(folder, special=["<s>", *(marks if request.param else ())], plain=[])


def split(tokenizer, markers, text, state, cut=None):
    splitter = ReasoningSplitter(markers, state)
    detokenizer = IncrementalDetokenizer(tokenizer, shown_ids=markers.shown_ids)
    ids = tokenizer.encode(text)[:cut]
    parts = [splitter.push(detokenizer.push(i), i) for i in ids]
    parts += [splitter.push(detokenizer.flush()), splitter.flush()]
    return "".join(r for r, _ in parts), "".join(c for _, c in parts)


@pytest.mark.parametrize("family", TEMPLATES)
def test_reasoning_and_answer_are_told_apart(vocabulary, family):
    markers = find_reasoning_markers(TEMPLATES[family], vocabulary)
    opening, closing = markers.opening, markers.closing
    for state, begin in ((PromptState.UNSAID, opening), (PromptState.OPEN, "")):
        text = f"{begin}\nit's\n\n1 < 2\n{closing}\n\nYes [a] {{b}}.\n"
        expected = ("it's\n\n1 < 2", "Yes [a] {b}.\n")
        assert split(vocabulary, markers, text, state) == expected
        assert split_reasoning(markers, text, state) == expected
    assert split(vocabulary, markers, "Yes.", PromptState.UNSAID) == ("", "Yes.")
    assert split(vocabulary, markers, f"{closing}\n\nYes.", PromptState.OPEN) == ("", "Yes.")
    assert split(vocabulary, markers, f"{opening}a{closing}{closing}b", PromptState.UNSAID) == ("a", "b")


@pytest.mark.parametrize("family", TEMPLATES)
def test_reasoning_that_was_cut_is_no_answer(vocabulary, family):
    markers = find_reasoning_markers(TEMPLATES[family], vocabulary)
    text = f"it's\n\n1 < 2{markers.closing}Yes."
    length = len(vocabulary.encode(text))
    for cut in range(length + 1):
        reasoning, content = split(vocabulary, markers, text, PromptState.OPEN, cut)
        assert "Yes.".startswith(content)
        assert not content or reasoning == "it's\n\n1 < 2"
        assert reasoning.startswith("it's\n\n1 < 2"[: len(reasoning)])


@pytest.mark.parametrize("family", TEMPLATES)
def test_the_end_of_a_prompt_says_what_comes(vocabulary, family):
    markers = find_reasoning_markers(TEMPLATES[family], vocabulary)
    assert prompt_state(markers, f"assistant\n{markers.opening}\n") is PromptState.OPEN
    assert prompt_state(markers, f"assistant\n{markers.opening}\n{markers.closing}\n\n") is PromptState.CLOSED
    assert prompt_state(markers, "assistant\n") is PromptState.UNSAID
