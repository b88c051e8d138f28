"""Random runs of an engine on the scripted backend, and what they must come to: answers as of each request alone."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from list_grammars import ListCompiler, ListState, lists
from onnxgen.backends.adapters import Adapter
from onnxgen.backends.base import KVCache, Step, StepOutput
from onnxgen.backends.fake import FakeBackend
from onnxgen.conformance.engine_trace import TraceReport, check_trace
from onnxgen.engine import core, outside_pool
from onnxgen.engine.block_mover import CacheBlockMover
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.core import EngineCore
from onnxgen.engine.events import EngineEvent
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sample import Sample
from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.engine.sampling.rows import Drawn, RowSampler
from onnxgen.engine.sampling.scoring import processed_logprobs, raw_logprobs
from onnxgen.engine.speculation.base import Wanted
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import AdmissionError, BackendError, ContextLengthError, OnnxgenError
from onnxgen.scheduler.config import SchedulerConfig
from random_sampling import random_sampling
from sampled_sequences import SampledSequence
from scripted_proposer import ScriptedProposer
from token_scores import check_prompt_scores, check_score, log_softmax

VOCAB = 13
EOS = 12
ADAPTERS = ("poet", "lawyer")
MAX_CONTEXT = 48
GRAMMARS = ListCompiler(VOCAB, [EOS])


@dataclass(frozen=True)
class SoloAnswer:
    """What a sample must be.

    Attributes:
        tokens: Of the answer, without one that ends it.
        reason: Why it ends.
        scores: Of these tokens, and of one that ends it, where they were asked for.
        asked_after: How many of them there were each time that the model was asked.
    """

    tokens: list[int]
    reason: str
    scores: list[TokenLogprobs | None]
    asked_after: list[int]


def solo_answer(backend: FakeBackend, request: EngineRequest, index: int, *, max_tokens: int) -> SoloAnswer:
    """What sample ``index`` of a request must be, without cache, step or neighbour.

    Args:
        backend: Whose logits count.
        request: With a seed, unless it is greedy.
        index: Which sample.
        max_tokens: Length of prompt and answer at most.
    """
    options = replace(
        request.sampling, stream=request.sampling.stream + index, seed=request.sampling.seed or 0
    )
    row = SampledSequence(options, list(request.prompt), len(request.prompt))
    sampler = RowSampler(eos_ids=[EOS])
    if request.max_new_tokens is not None:
        max_tokens = min(max_tokens, row.prompt_tokens + request.max_new_tokens)
    grammar = None if request.grammar is None else GRAMMARS.compile(request.grammar).new_state()
    scores: list[TokenLogprobs | None] = []
    asked_after: list[int] = []
    reason = "length" if row.num_tokens == max_tokens else None
    while reason is None:
        asked_after.append(row.num_new_tokens)
        logits = backend.logits_after(row.tokens, adapter=request.adapter)
        row.mask = None if grammar is None else _solo_mask(grammar, row, request)
        [token], drawn = sampler.choose_and_keep(logits[None].copy(), [row], keep=[0])
        if isinstance(token, OnnxgenError):
            assert grammar is not None, token  # grammar and options may leave nothing
            reason = "error"
            break
        scores.append(_solo_score(request, logits, drawn[0], token))
        reason = _append(row, token, request, grammar, max_tokens)
        if grammar is None:
            continue
        grammar.follow(row.tokens[row.prompt_tokens :])
        for forced in () if reason is not None or _sees_each_token(request) else grammar.forced():
            if reason is None:
                scores.append(None)
                reason = _append(row, forced, request, grammar, max_tokens)
        grammar.follow(row.tokens[row.prompt_tokens :])
        reason = reason or ("eos" if grammar.is_complete else None)
    return SoloAnswer(row.tokens[row.prompt_tokens :], reason, scores, asked_after or [0])


def _append(row: SampledSequence, token: int, request: EngineRequest, grammar, max_tokens: int) -> str | None:
    """Let an answer go on with a token, and say why it ends, if it does."""
    if token == EOS and (grammar is not None or not request.ignore_eos):
        return "eos"
    if token in request.stop_token_ids:
        return "stop"
    row.tokens.append(token)
    if row.num_tokens < max_tokens:
        return None
    if grammar is not None:
        grammar.follow(row.tokens[row.prompt_tokens :])
    return "eos" if grammar is not None and grammar.is_complete else "length"


def _solo_mask(grammar: ListState, row: SampledSequence, request: EngineRequest):
    mask = np.zeros(1, np.uint32)
    grammar.follow(row.tokens[row.prompt_tokens :])
    grammar.fill(mask)
    others = mask & ~np.uint32(1 << EOS)
    return others if request.ignore_eos and others.any() else mask


def _sees_each_token(request: EngineRequest) -> bool:
    options = request.sampling
    forbids = any(bias == float("-inf") for _, bias in options.logit_bias)
    bans = options.bad_words or options.no_repeat_ngram_size
    return request.logprobs is not None or bool(bans) or forbids


def _solo_score(request: EngineRequest, logits, drawn: Drawn, token: int) -> TokenLogprobs | None:
    if request.logprobs is None:
        return None
    if request.logprobs_of == "processed":
        return processed_logprobs(drawn, token, request.logprobs)
    [score] = raw_logprobs([logits], [token], [request.logprobs])
    check_score(score, log_softmax(logits), token, request.logprobs)
    return score


class FailsOn:
    """Fails every step of a sequence in which two tokens stand side by side, however often it is tried."""

    def __init__(self, first: int, second: int) -> None:
        self.pair = first, second

    def __call__(self, tokens: Sequence[int]) -> bool:
        return self.pair in itertools.pairwise(int(token) for token in tokens)

    def __repr__(self) -> str:
        return f"FailsOn{self.pair}"


class Interruptible(FakeBackend):
    """Interrupts the caller, as Ctrl-C does, at the end of steps of some numbers; may be unable to copy blocks."""

    def __init__(self, *args, copy_blocks: bool = True, **options) -> None:
        super().__init__(*args, **options)
        self._capabilities = replace(self._capabilities, copy_blocks=copy_blocks)
        self.interrupt_steps: Sequence[int] = ()

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        output = super().execute(step, cache)
        if self.num_steps - 1 in self.interrupt_steps:
            raise KeyboardInterrupt
        return output


class UnreliableMover(CacheBlockMover):
    """Memory and disk that fail now and then."""

    rng = random.Random()

    def save(self, key, pieces):
        return None if self.rng.random() < 0.1 else super().save(key, pieces)

    def to_disk(self, key):
        return self.rng.random() > 0.2 and super().to_disk(key)

    def load(self, key, pieces):
        return self.rng.random() > 0.2 and super().load(key, pieces)


class Clock:
    """Time that goes on when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        requests: By the engine's number.
        answers: Tokens by request and sample.
        scores: What was told of these, and of tokens that ended an answer.
        prompt_scores: What was told of prompts, by request.
        ends: The last event of each.
        cancelled: Samples that were cancelled, with the reason that was given.
        num_steps: Steps that were asked for.
        preemptions: How often a sequence gave way.
        failed_steps: Steps that raised.
        guessed: Tokens of drafts that were computed.
        accepted: Of these, those that count.
        report: Of the trace.
    """

    requests: dict[int, EngineRequest] = field(default_factory=dict)
    answers: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    scores: dict[tuple[int, int], list[TokenLogprobs | None]] = field(default_factory=dict)
    prompt_scores: dict[int, tuple[TokenLogprobs | None, ...]] = field(default_factory=dict)
    ends: dict[tuple[int, int], EngineEvent] = field(default_factory=dict)
    cancelled: dict[tuple[int, int], str] = field(default_factory=dict)
    num_steps: int = 0
    preemptions: int = 0
    failed_steps: int = 0
    hit_tokens: int = 0
    refused: Counter = field(default_factory=Counter)
    guessed: int = 0
    accepted: int = 0
    report: TraceReport | None = None


class RandomRun:
    """One engine, random requests, and everything that may happen to them.

    Args:
        seed: Decides everything.
        folder: For the trace, and for a tier on disk.
        changes: Fixes what would be random: ``backend``, ``config``, ``budgets`` are updated with these.
    """

    def __init__(self, seed: int, folder: Path, **changes: dict[str, Any]) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.clock = Clock()
        self.outcome = Outcome()
        self.backend_options = self._random_backend() | changes.get("backend", {})
        self.budgets = self._random_budgets() | changes.get("budgets", {})
        self.config_options = self._random_config() | changes.get("config", {})
        if self.config_options["strict"]:
            least = max(self.budgets["max_step_tokens"], self.budgets["chunk_tokens"])
            self.budgets["max_step_tokens"] = least
        self.num_requests = self.rng.randint(4, 20)
        self.beginnings = [self._tokens(self.rng.randint(1, 24)) for _ in range(3)]
        self.backend = Interruptible(VOCAB, max_context=MAX_CONTEXT, eos_token_id=EOS, **self.backend_options)
        for name in ADAPTERS:
            self.backend.adapters.load(Adapter(name, "", digest=name))
        self.trace = folder / "trace.jsonl"
        self.rope_switch = self.rng.choice([None, None, self.rng.randint(2, MAX_CONTEXT)])
        self.grows = self.rng.random() < 0.4
        self.backend.interrupt_steps = self.rng.choice([(), (), self.rng.sample(range(100), 5)])
        self.guesses = ScriptedProposer(
            self.rng, self._following, vocab=VOCAB, failures=self.rng.choice([0.0, 0.0, 0.0, 0.02])
        )
        self._foreseen: dict[tuple[int, int], list[int]] = {}
        self.core = self._make_core()
        self.abandoned = self.interrupted = False
        self.unrest = self.rng.choice([0.0, 0.01, 0.1])
        self.open: set[tuple[int, int]] = set()
        self.preemptions = {self.budgets["preemption"]}

    def describe(self) -> str:
        rest = (
            f"rope_switch {self.rope_switch}, interrupts {self.backend.interrupt_steps}, grows {self.grows}"
        )
        return f"backend {self.backend_options}, budgets {self.budgets}, config {self.config_options}, {rest}"

    def _make_core(self) -> EngineCore:
        """With tiers that are as small as everything here, and fail now and then in some runs."""
        moving = UnreliableMover if self.rng.random() < 0.3 else CacheBlockMover
        UnreliableMover.rng = self.rng
        config = EngineConfig(
            scheduler=SchedulerConfig(**self.budgets), trace=self.trace, **self.config_options
        )
        with (
            mock.patch.object(outside_pool, "_MIB", self.rng.choice([100, 500, 2000, 1 << 20])),
            mock.patch.object(outside_pool, "CacheBlockMover", moving),
            mock.patch.object(core, "_LOGITS_BYTES", 4 * VOCAB * self.rng.choice([1, 2, 7, 1000])),
        ):
            return EngineCore(
                self.backend,
                config,
                eos_ids=[EOS],
                rope_switch_length=self.rope_switch,
                grammars=GRAMMARS,
                proposers={"prompt_lookup": self.guesses} if self.rng.random() < 0.7 else None,
                clock=self.clock,
            )

    def _following(self, wanted: Wanted) -> list[int]:
        """What a sequence will go on with."""
        sample = wanted.row
        assert isinstance(sample, Sample)
        key = sample.request_id, sample.index
        if key not in self._foreseen:
            self._foreseen[key] = self._alone(sample.request, sample.index)[0]
        answer = self._foreseen[key]
        return [*answer, EOS][sample.num_new_tokens :]

    def run(self) -> Outcome:
        """Submit, step and disturb until nothing is left; then close, and check the whole."""
        rng, submitted, limit = self.rng, 0, 0
        busy = rng.choice([0.1, 0.5, 0.9])
        while (submitted < self.num_requests or self.core.has_work) and not self.abandoned:
            while submitted < self.num_requests and (not self.core.has_work or rng.random() < busy):
                submitted += 1
                limit += self._submit()
            self._disturb()
            self.interrupted = True
            with contextlib.suppress(KeyboardInterrupt):
                self._tell(self.core.step())
                self.interrupted = False
            self.core.check_integrity()
            self.outcome.num_steps += 1
            self.abandoned = rng.random() < 0.001
            assert self.outcome.num_steps < 200 + 20 * limit, f"no end in sight: {self.describe()}"
        self._close()
        self.check()
        return self.outcome

    def _submit(self) -> int:
        """Ask for something; returns how many tokens that is."""
        request = self._random_request()
        try:
            number = self.core.submit(request)
        except (AdmissionError, ContextLengthError) as error:
            self.outcome.refused[type(error).__name__] += 1
            assert request.n > 1 or not request.allow_cap or self.budgets["max_waiting"] is not None, error
            return 0
        self.outcome.requests[number] = request
        for index in range(request.n):
            self.open.add((number, index))
            self.outcome.answers[number, index] = []
            self.outcome.scores[number, index] = []
        return MAX_CONTEXT * request.n

    def _disturb(self) -> None:
        rng = self.rng
        self.clock.now += rng.random()
        # what an interrupted step has to tell comes with the next one: until then nobody knows who has ended
        if self.open and not self.interrupted and rng.random() < self.unrest:
            number, index = rng.choice(sorted(self.open))
            reason = rng.choice(["cancelled", "cancelled", "stop"])
            whole = rng.random() < 0.5
            assert self.core.cancel(number, index=None if whole else index, reason=reason)
            for key in [k for k in self.open if k == (number, index) or (whole and k[0] == number)]:
                self.outcome.cancelled[key] = reason
        if rng.random() < 0.02:
            self.core.forget_prefixes()
        if rng.random() < 0.02:
            changed = self._random_budgets()
            if self.config_options["strict"]:
                changed["chunk_tokens"] = self.budgets["chunk_tokens"]
                changed["max_step_tokens"] = max(changed["max_step_tokens"], changed["chunk_tokens"])
            self.budgets = changed
            self.preemptions.add(changed["preemption"])
            self.core.reconfigure(SchedulerConfig(**changed))

    def _tell(self, events: list[EngineEvent]) -> None:
        for event in events:
            key = event.request_id, event.index
            assert key in self.open, f"{event} after its end, or of nobody"
            self._keep_scores(event)
            if event.token_id is not None and not event.is_eos:
                assert key not in self.outcome.cancelled, f"{event} after its cancel"
                self.outcome.answers[key].append(event.token_id)
            if event.finish_reason is not None:
                self.open.remove(key)
                self.outcome.ends[key] = event
        for key in self.outcome.cancelled:
            assert key not in self.open, f"{key} was cancelled and has not ended a step later"

    def _keep_scores(self, event: EngineEvent) -> None:
        """Tokens come with theirs, and prompts with the first token, or with the end where there are none."""
        request = self.outcome.requests[event.request_id]
        key = event.request_id, event.index
        if event.token_id is not None:
            self.outcome.scores[key].append(event.logprobs)
        assert event.logprobs is None or event.token_id is not None
        scored = event.finish_reason == "length" and request.max_new_tokens == 0
        due = request.prompt_logprobs is not None and event.request_id not in self.outcome.prompt_scores
        assert (event.prompt_logprobs is not None) == (due and (event.token_id is not None or scored)), event
        if event.prompt_logprobs is not None:
            self.outcome.prompt_scores[event.request_id] = event.prompt_logprobs

    def _close(self) -> None:
        stats = self.core.stats()
        self.outcome.preemptions, self.outcome.failed_steps = stats.preemptions, stats.failed_steps
        self.outcome.hit_tokens = stats.cache.hit_tokens
        for pool in (stats.cache.full, stats.cache.window):
            assert pool is None or pool.in_use == 0 or self.abandoned, f"blocks are left: {pool}"
        self.core.forget_prefixes()
        for pool in (self.core.stats().cache.full, self.core.stats().cache.window):
            assert pool is None or pool.cached == 0 or self.abandoned, (
                f"the prefix cache cannot be emptied: {pool}"
            )
        self.core.close()
        with self.trace.open(encoding="utf-8") as lines:
            self.outcome.report = check_trace(lines, starved_steps=10_000)

    def check(self) -> None:
        """Every sample ended once, with the answer that it has alone, or a beginning of it if it was disturbed."""
        outcome = self.outcome
        assert not self.open or self.abandoned, f"never ended: {self.open}"
        assert outcome.report is not None
        assert not outcome.report.violations, "\n".join(map(str, outcome.report.violations[:10]))
        self.errors_to_come = sum(number < self.backend.num_steps for number in self._fail_steps)
        for number, scores in outcome.prompt_scores.items():
            self._check_prompt(outcome.requests[number], scores)
        for key, end in outcome.ends.items():
            request, answer = outcome.requests[key[0]], outcome.answers[key]
            usage = end.usage
            assert usage is not None
            assert 0 <= usage.accepted_draft_tokens <= usage.draft_tokens
            assert usage.accepted_draft_tokens <= max(len(answer), 1)
            self.outcome.accepted += usage.accepted_draft_tokens
            self.outcome.guessed += usage.draft_tokens
            assert (usage.prompt_tokens, usage.completion_tokens) == (len(request.prompt), len(answer)), end
            assert 0 <= usage.cached_tokens < len(request.prompt)
            assert (end.error is not None) == (end.finish_reason == "error")
            self._check_answer(key, request, answer, end)
        for name in ADAPTERS:
            self.backend.adapters.unload(name)  # nobody uses it any more

    def _check_prompt(self, request: EngineRequest, scores: Sequence[TokenLogprobs | None]) -> None:
        prompt, start = list(request.prompt), request.prompt_logprobs_start
        rows = [
            self.backend.logits_after(prompt[: i + 1], adapter=request.adapter) for i in range(len(prompt))
        ]
        assert request.prompt_logprobs is not None
        check_prompt_scores(scores, rows, prompt, start=start, top=request.prompt_logprobs)

    def _check_answer(
        self, key: tuple[int, int], request: EngineRequest, answer: list[int], end: EngineEvent
    ) -> None:
        expected, reason, scores = self._alone(request, key[1])
        told = self.outcome.scores[key]
        assert told == scores[: len(told)], (key, request, told, scores)
        if (answer, end.finish_reason) == (expected, reason):
            return
        assert answer == expected[: len(answer)], (key, request)
        if key in self.outcome.cancelled:
            assert end.finish_reason == self.outcome.cancelled[key], end
        elif end.finish_reason == "error":
            # one step that was told to fail ends one sequence at most, and those that it stands for
            assert type(end.error) is BackendError, end
            self.errors_to_come -= 1 / request.n
            assert self.errors_to_come > -1e-9, f"{end}, but fewer steps were told to fail: {request}"
        elif end.finish_reason == "length":
            # several samples that run at once without giving way are capped to what is left for each
            assert request.allow_cap or request.max_new_tokens is None, (key, request)
            assert request.n > 1 and "off" in self.preemptions, (key, request)
        else:
            assert end.finish_reason == "deadline" and request.deadline_s is not None, (key, request, end)

    @property
    def _fail_steps(self) -> Sequence[int]:
        return self.backend_options.get("fail_steps", ())

    def _alone(self, request: EngineRequest, index: int) -> tuple[list[int], str, list[TokenLogprobs | None]]:
        """The answer, how it ends, and its scores; one that feeds what the backend fails on ends there."""
        fails = self.backend_options.get("fail_when", lambda tokens: False)
        limit = self.core.max_seq_tokens
        solo = solo_answer(self.backend, request, index, max_tokens=limit)
        for length in solo.asked_after:
            if fails([*request.prompt, *solo.tokens[:length]]):
                return solo.tokens[:length], "error", solo.scores[:length]
        return solo.tokens, solo.reason, solo.scores

    # what is random

    def _tokens(self, count: int) -> list[int]:
        return [self.rng.randrange(VOCAB - 1) for _ in range(count)]

    def _random_backend(self) -> dict[str, Any]:
        rng = self.rng
        kind = rng.choice(["pages", "pages", "slots", "window", "exact"])
        options: dict[str, Any] = {}
        if kind in ("pages", "window"):
            options["block_size"] = rng.randint(1, 9)
        if kind == "window":
            options["window"] = rng.randint(1, 20)
        if kind == "exact":
            options["rewind"] = False
        if rng.random() < 0.3:
            options["adapters"] = "step"
        if rng.random() < 0.2:
            options["copy_blocks"] = False
        if rng.random() < 0.4:
            options["fail_steps"] = sorted(rng.sample(range(100), rng.randint(1, 8)))
        if rng.random() < 0.3:
            options["fail_when"] = FailsOn(rng.randrange(VOCAB - 1), rng.randrange(VOCAB - 1))
        return options

    def _random_budgets(self) -> dict[str, Any]:
        rng = self.rng
        max_seqs = rng.randint(3, 6)
        return {
            "max_seqs": max_seqs,
            "max_step_tokens": max_seqs + rng.randint(0, 40),
            "chunk_tokens": rng.choice([1, 2, 3, 5, 8, 16, 64]),
            "policy": rng.choice(["fcfs", "priority", "fair"]),
            "preemption": rng.choice(["auto", "swap", "recompute", "off"]),
            "wait_for_prefix": rng.random() < 0.7,
            "max_waiting": rng.choice([None, None, 2]),
            "aging_steps": rng.choice([None, 1, 5, 100]),
            "tenant_weights": rng.choice([{}, {"a": 3.0, "b": 0.5}]),
        }

    def _random_config(self) -> dict[str, Any]:
        rng = self.rng
        sequences = rng.choice([1, 1, 1.5, 1.5, 2, 4])
        config: dict[str, Any] = {
            "cache_tokens": int(MAX_CONTEXT * sequences),
            "prefix_reuse": rng.random() < 0.8,
            "strict": rng.random() < 0.1,
        }
        if rng.random() < 0.5:
            config["speculation"] = self._random_speculation()
        if rng.random() < 0.5:
            config["host_tier_mb"] = 1
        if rng.random() < 0.3:
            config |= {"disk_tier_mb": 1, "disk_tier_dir": self.folder / "tier"}
        return config

    def _random_speculation(self) -> Speculation:
        rng = self.rng
        return Speculation(
            rng.choice(["auto", "prompt_lookup"]),
            max_draft_tokens=rng.choice([1, 2, 4, 8, 20]),
            min_match=rng.choice([1, 2, 3]),
            adaptive=rng.random() < 0.4,
        )

    def _random_request(self) -> EngineRequest:
        rng = self.rng
        prompt = self._random_prompt()
        scoring: dict[str, Any] = {}
        if rng.random() < 0.4:
            scoring["prompt_logprobs"] = rng.choice([0, 0, 2, VOCAB])
            scoring["prompt_logprobs_start"] = rng.choice([0, 0, rng.randrange(len(prompt))])
        lengths = [0] if scoring and rng.random() < 0.3 else [None, None, 1, 3, 12, 30]
        sampling = random_sampling(rng, vocab=VOCAB, eos=EOS)
        grammar = rng.choice([None, None, self._random_grammar()])
        return EngineRequest(
            prompt,
            sampling=sampling,
            grammar=None if sampling.forced_tokens else grammar,
            max_new_tokens=None if self.grows else rng.choice(lengths),
            n=rng.choice([1, 1, 1, 2, 3]),
            ignore_eos=self.grows or rng.random() < 0.75,
            stop_token_ids=() if self.grows else rng.choice([(), (), (), (3, 7)]),
            priority=rng.randint(-2, 2),
            tenant=rng.choice(["", "a", "b"]),
            deadline_s=rng.choice([*[None] * 9, 0.0, 5.0, 30.0]),
            salt=rng.choice([None, None, None, "pepper"]),
            allow_cap=rng.random() < 0.8,
            logprobs=rng.choice([None, None, 0, 3, VOCAB]),
            logprobs_of=rng.choice(["raw", "processed"]),
            adapter=rng.choice([None, None, None, *ADAPTERS]),
            speculation=rng.choice([None, None, Speculation("off"), self._random_speculation()]),
            **scoring,
        )

    def _random_grammar(self) -> Grammar:
        """Some answers that begin alike, and then do not."""
        rng = self.rng
        answers = [self._grammar_tokens(rng.choice([1, 3, 12, MAX_CONTEXT]))]
        for _ in range(rng.choice([0, 1, 3, 8])):
            beginning = rng.choice(answers)
            kept = rng.randrange(len(beginning) + 1)
            answers.append([*beginning[:kept], *self._grammar_tokens(rng.choice([1, 5, 20]))])
        return lists(*answers, fast_forward=rng.random() < 0.7)

    def _grammar_tokens(self, count: int) -> list[int]:
        return [self.rng.randrange(1, VOCAB - 1) for _ in range(count)]

    def _random_prompt(self) -> list[int]:
        """Anew, on from a beginning that others share, or on from an answer that was given."""
        rng = self.rng
        prompt: list[int] = []
        answered = [key for key in self.outcome.ends if self.outcome.answers[key]]
        if answered and rng.random() < 0.3:
            key = rng.choice(answered)
            prompt = [*self.outcome.requests[key[0]].prompt, *self.outcome.answers[key]]
        elif rng.random() < 0.7:
            prompt = list(rng.choice(self.beginnings))
        if not prompt or rng.random() < 0.8:
            prompt = prompt + self._tokens(rng.randint(1, 12))
        if self.grows:
            prompt = prompt[:8]
        return prompt[: self.core.max_seq_tokens - rng.randint(1, 8)]
