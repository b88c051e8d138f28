"""Evaluation harnesses ask a server how probable texts are: a real model says over HTTP what it says in this process."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from onnxgen import LLM
from onnxgen.foundations.config_sources import load_runtime_config
from onnxgen.server.app import create_app
from onnxgen.server.settings import ServerSettings
from onnxgen.server.startup import open_services
from real_models import checkpoint_file
from server_doubles import running

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]

QUESTIONS = [
    ("The capital of France is", [" Paris", " banana", " Monday"], 0),
    ("Two plus two makes", [" four", " purple", " Africa"], 0),
    ("The sun rises in the", [" spoon", " east", " letter"], 1),
    ("Water freezes into", [" music", " ice", " seven"], 1),
    ("Cats and dogs are", [" numbers", " oceans", " animals"], 2),
]
TASK = """
task: tiny_choices
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
target_delimiter: ""
doc_to_target: gold
metric_list:
  - metric: acc
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    checkpoint_file("smollm2", fetch=True)
    services = open_services(ServerSettings(model="smollm2", warm_up=False), load_runtime_config().config)
    with running(create_app(services)) as url:
        yield url


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    checkpoint_file("smollm2", fetch=True)
    with LLM("smollm2") as llm:
        yield llm


@pytest.fixture(scope="module")
def expected(llm: LLM) -> list[list[Any]]:
    """What the model says in this process: of each question, the scores of its choices."""
    encode = llm.tokenizer.encode
    return [
        llm.score([encode(choice) for choice in choices], context=encode(question))
        for question, choices, _ in QUESTIONS
    ]


def test_choices_are_judged_in_one_request_as_in_this_process(
    url: str, llm: LLM, expected: list[list[Any]]
) -> None:
    encode = llm.tokenizer.encode
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=3) as client:
        for (question, choices, gold), scores in zip(QUESTIONS, expected, strict=True):
            prompts = [[*encode(question), *encode(choice)] for choice in choices]
            done = client.completions.create(
                model="smollm2", prompt=prompts, max_tokens=1, temperature=0, logprobs=1, echo=True
            )
            begin, found = len(encode(question)), []
            for choice, score in zip(done.choices, scores, strict=True):
                told = choice.logprobs
                assert told is not None and told.token_logprobs is not None and told.top_logprobs is not None
                logprobs = told.token_logprobs[begin:-1]  # the last is of the one token that came
                found.append(sum(logprobs))
                assert found[-1] == pytest.approx(score.logprob, abs=1e-3)
                best = [max(top.values()) for top in told.top_logprobs[begin:-1]]
                assert (logprobs == best) == score.is_greedy
            assert found.index(max(found)) == gold


def test_a_text_that_was_just_answered_is_judged_whole(url: str, llm: LLM) -> None:
    text = "The sun rises in the east and sets in the west. " * 8
    expected = llm.score(text)
    asked = {"prompt": text, "max_tokens": 2, "temperature": 0}
    with httpx.Client(base_url=url, timeout=120) as client:
        for _ in range(2):
            cached = client.post("/v1/completions", json=asked).json()
        assert cached["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        judged = client.post("/v1/completions", json={**asked, "max_tokens": 0, "echo": True, "logprobs": 0})
    first, *others = judged.json()["choices"][0]["logprobs"]["token_logprobs"]
    assert first is None
    assert others == pytest.approx([token.logprob for token in expected.tokens], abs=1e-3)


def test_lm_eval_runs(url: str, tmp_path: Path, expected: list[list[Any]]) -> None:
    program = shutil.which("lm_eval") or shutil.which("lm-eval")
    if program is None:
        pytest.skip("lm_eval is not on PATH; install it with: pip install 'lm-eval[api]'")
    rows = [{"question": q, "choices": choices, "gold": gold} for q, choices, gold in QUESTIONS]
    data = tmp_path / "choices.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "tiny_choices.yaml").write_text(TASK.format(data=data), encoding="utf-8")
    subprocess.run(
        [
            *(program, "run", "--model", "local-completions", "--batch_size", "4"),
            *("--model_args", f"model=smollm2,base_url={url}/v1/completions,num_concurrent=2"),
            *("--include_path", str(tmp_path), "--tasks", "tiny_choices"),
            *("--output_path", str(tmp_path / "out"), "--log_samples"),
        ],
        check=True,
        timeout=300,
        cwd=tmp_path,
    )
    [samples] = (tmp_path / "out").rglob("samples_tiny_choices*.jsonl")
    told = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    assert [sample["acc"] for sample in told] == [1.0] * len(QUESTIONS)
    for sample, scores in zip(sorted(told, key=lambda s: s["doc_id"]), expected, strict=True):
        for [[logprob, is_greedy]], score in zip(sample["resps"], scores, strict=True):
            assert float(logprob) == pytest.approx(score.logprob, abs=1e-3)
            assert str(is_greedy) == str(score.is_greedy)
