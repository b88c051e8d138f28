"""Adapters on real backends: a folder and an adapter give what a folder of the merged checkpoint gives."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import threading

import numpy as np
import pytest

from checkpoints import CHECKPOINTS, write_checkpoint
from onnxgen.backends import load_backend
from onnxgen.backends.adapters import Adapter
from onnxgen.backends.base import SequenceInput, pack_step
from onnxgen.backends.ort.backend import OrtBackend
from onnxgen.backends.ort.plan_kind import PlanKind
from onnxgen.builder import BuildOptions, build
from onnxgen.builder.adapters import read_adapter
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import CapabilityError, ModelFileError, StateError, StepError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.scheduler.config import SchedulerConfig
from peft_by_hand import merged, random_pairs, write_peft

PROMPT = [5, 9, 31, 7, 12, 44, 3, 21, 18, 6, 30]
BACKENDS = ("packed", "batched", "dense", "native")
SEED = secrets.randbits(32)


def open_backend(folder, cache, kind):
    config = RuntimeConfig(cache_dir=cache, backend="native" if kind == "native" else "ort")
    model = load_model_spec(folder).decoder
    return load_backend(model, config) if kind == "native" else OrtBackend(model, config, plan=PlanKind(kind))


def build_folder(tmp_path, name, label, *, weights=None, precision="fp32", **changes):
    checkpoint = dataclasses.replace(CHECKPOINTS[name], **changes)
    source = write_checkpoint(checkpoint, tmp_path / f"{label}-checkpoint", weights=weights)
    build(source, tmp_path / label, options=BuildOptions(precision=precision))
    return tmp_path / label


class Sequences:
    """Sequences on one cache of a backend."""

    def __init__(self, backend, count, length=40):
        self.backend = backend
        self.cache = backend.create_cache(num_seqs=count, num_tokens=length)
        each = self.cache.geometry.num_blocks // count
        self.blocks = [range(i * each, (i + 1) * each) for i in range(count)]
        self.lengths = [0] * count

    def step(self, parts, logits="all"):
        """Append tokens to some sequences, each under an adapter: {sequence: (tokens, adapter)}."""
        inputs = [
            SequenceInput(tokens, self.lengths[i], self.blocks[i], logits=logits, adapter=adapter)
            for i, (tokens, adapter) in parts.items()
        ]
        out = self.backend.execute(pack_step(inputs), self.cache).logits
        for i, (tokens, _) in parts.items():
            self.lengths[i] += len(tokens)
        return out


def logits(backend, tokens, adapter=None):
    return Sequences(backend, 1).step({0: (tokens, adapter)})


def spread(values):
    return float(values.max() - values.min())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in ("llama-untied", "phi3") for kind in BACKENDS),
        *((name, kind) for name in ("qwen3", "gemma3", "llama-bias") for kind in ("packed", "native")),
    ],
)
def test_an_adapter_is_worth_its_merged_checkpoint(name, kind, tmp_path):
    rank = 1 + SEED % 5
    pairs = random_pairs(CHECKPOINTS[name], seed=SEED, rank=rank)
    adapter = read_adapter(write_peft(tmp_path / "adapter", pairs, alpha=2 * rank), "poems")
    plain = open_backend(build_folder(tmp_path, name, "plain"), tmp_path / "cache", kind)
    weights = merged(CHECKPOINTS[name], pairs, scale=2.0)
    other = open_backend(build_folder(tmp_path, name, "merged", weights=weights), tmp_path / "cache", kind)
    before = logits(plain, PROMPT)
    plain.adapters.load(adapter)
    want, got = logits(other, PROMPT), logits(plain, PROMPT, "poems")
    assert np.abs(got - want).max() < 1e-4 * spread(want), f"seed {SEED}"
    assert np.abs(before - want).max() > 0.05 * spread(want), "the adapter must matter"
    np.testing.assert_array_equal(logits(plain, PROMPT), before)


@pytest.mark.parametrize("kind", BACKENDS)
def test_chunks_and_decode_steps_under_an_adapter_equal_one_step(kind, tmp_path):
    pairs = random_pairs(CHECKPOINTS["llama"], seed=SEED, rank=3)
    backend = open_backend(build_folder(tmp_path, "llama", "plain"), tmp_path / "cache", kind)
    backend.adapters.load(read_adapter(write_peft(tmp_path / "adapter", pairs), "poems"))
    want = logits(backend, PROMPT, "poems")
    sequences = Sequences(backend, 2)
    got = [sequences.step({1: (PROMPT[:4], "poems")})]
    got += [sequences.step({1: (PROMPT[4:9], "poems")})]
    got += [sequences.step({1: ([token], "poems")}) for token in PROMPT[9:]]
    assert np.abs(np.concatenate(got) - want).max() < 1e-4 * spread(want), f"seed {SEED}"


@pytest.mark.parametrize("kind", BACKENDS)
def test_adapters_take_turns_on_one_cache(kind, tmp_path):
    checkpoint = CHECKPOINTS["llama"]
    backend = open_backend(build_folder(tmp_path, "llama", "plain"), tmp_path / "cache", kind)
    targets = {"a": (), "b": ("q_proj", "v_proj")}
    for number, (name, only) in enumerate(targets.items()):
        pairs = random_pairs(checkpoint, seed=SEED + number, rank=2 + number, only=only)
        backend.adapters.load(read_adapter(write_peft(tmp_path / name, pairs), name))
    want = {name: logits(backend, PROMPT, name) for name in ("a", "b", None)}
    assert np.abs(want["a"] - want["b"]).max() > 0.05 * spread(want["a"])
    sequences = Sequences(backend, 3)
    got = {"a": [], "b": [], None: []}
    for start, end in ((0, 5), (5, 10), (10, 11)):
        for i, name in enumerate(got):
            got[name].append(sequences.step({i: (PROMPT[start:end], name)}))
    for name, parts in got.items():
        assert np.abs(np.concatenate(parts) - want[name]).max() < 1e-4 * spread(want[name]), f"seed {SEED}"


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize("precision", ["int4", "int8"])
def test_quantized_matrices_take_adapters(precision, kind, tmp_path):
    checkpoint = CHECKPOINTS["llama-untied"]
    folder = build_folder(tmp_path, "llama-untied", "plain", precision=precision)
    backend = open_backend(folder, tmp_path / "cache", kind)
    nothing = {module: (a, b * 0) for module, (a, b) in random_pairs(checkpoint, seed=SEED, rank=2).items()}
    backend.adapters.load(read_adapter(write_peft(tmp_path / "nothing", nothing), "nothing"))
    want = logits(backend, PROMPT)
    assert np.abs(logits(backend, PROMPT, "nothing") - want).max() < 1e-4 * spread(want)
    # what a head adds can be told apart from what quantization does: hidden states are the same
    head = random_pairs(checkpoint, seed=SEED, rank=2, only=("lm_head",))
    backend.adapters.load(read_adapter(write_peft(tmp_path / "head", head), "head"))
    cache = backend.create_cache(num_seqs=1, num_tokens=40)
    step = pack_step(
        [SequenceInput(PROMPT, 0, range(cache.geometry.num_blocks), logits="all")], want_hidden_states=True
    )
    hidden = backend.execute(step, cache).hidden_states
    ((a, b),) = head.values()
    got = logits(backend, PROMPT, "head") - want
    assert np.abs(got - hidden @ a.T @ b.T).max() < 1e-4 * spread(want), f"seed {SEED}"


@pytest.mark.parametrize("kind", BACKENDS)
def test_an_adapter_of_another_model_is_refused_and_leaves_nothing(kind, tmp_path):
    backend = open_backend(build_folder(tmp_path, "llama", "plain"), tmp_path / "cache", kind)
    other = random_pairs(CHECKPOINTS["llama-head48"], seed=SEED, rank=2, only=("q_proj",))
    with pytest.raises(
        ModelFileError, match=r"lora_A of model.layers.0.\S+ is \[2, 72\], expected \[2, 64\]"
    ):
        backend.adapters.load(read_adapter(write_peft(tmp_path / "other", other), "other"))
    with pytest.raises((ModelFileError, CapabilityError), match=r"inputs"):
        backend.adapters.load(Adapter("x", source="x", digest="x", inputs={"a": np.zeros(2, np.float32)}))
    assert backend.adapters.names == ()
    with pytest.raises(StepError, match="adapter 'other' is not loaded"):
        logits(backend, PROMPT, "other")


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_name_can_be_given_to_another_adapter(kind, tmp_path):
    checkpoint = CHECKPOINTS["llama"]
    backend = open_backend(build_folder(tmp_path, "llama", "plain"), tmp_path / "cache", kind)
    sequences = Sequences(backend, 1)
    results = []
    for number in range(2):
        pairs = random_pairs(checkpoint, seed=SEED + number, rank=2)
        backend.adapters.load(read_adapter(write_peft(tmp_path / str(number), pairs), "it"))
        sequences.lengths[0] = 0
        results.append(sequences.step({0: (PROMPT, "it")}))
        sequences.step({0: ([1], "it")}, logits="last")
        backend.adapters.unload("it")
    assert np.abs(results[0] - results[1]).max() > 0.05 * spread(results[0])
    backend.adapters.load(read_adapter(tmp_path / "0", "it"))
    backend.adapters.acquire("it")
    with pytest.raises(StateError, match="in use"):
        backend.adapters.unload("it")
    np.testing.assert_array_equal(logits(backend, PROMPT, "it"), results[0])


def some_adapters(backend, checkpoint, folder):
    """Adapters of several ranks and targets, by name; none of them is None."""
    given = {
        "all": (5, ()),
        "few": (3, ("q_proj", "up_proj")),
        "high": (19, ("v_proj", "gate_proj", "down_proj")),
    }
    for number, (name, (rank, only)) in enumerate(given.items()):
        pairs = random_pairs(checkpoint, seed=SEED + number, rank=rank, only=only)
        backend.adapters.load(read_adapter(write_peft(folder / name, pairs), name))
    return (None, *given)


@pytest.mark.parametrize("precision", ["fp32", "int4", "int8"])
@pytest.mark.parametrize("name", ["llama", "phi3", "gemma3"])
def test_a_step_of_several_adapters_gives_each_sequence_its_bits(name, precision, tmp_path):
    checkpoint = CHECKPOINTS[name]
    backend = open_backend(
        build_folder(tmp_path, name, "plain", precision=precision), tmp_path / "cache", "native"
    )
    assert backend.capabilities.adapters == "sequence"
    before = logits(backend, PROMPT)
    names = some_adapters(backend, checkpoint, tmp_path)
    want = {own: logits(backend, PROMPT, own) for own in names}
    np.testing.assert_array_equal(want[None], before)
    sequences = Sequences(backend, len(names))
    parts = {own: [] for own in names}
    for start, end in ((0, 6), (6, 10), (10, 11)):
        # each a piece of another length
        shift = {own: i if end < 11 else 0 for i, own in enumerate(names)}
        cuts = {own: (start - (i if start else 0), end - shift[own]) for i, own in enumerate(names)}
        rows = sequences.step({i: (PROMPT[slice(*cuts[own])], own) for i, own in enumerate(names)})
        at = 0
        for own in names:
            count = cuts[own][1] - cuts[own][0]
            parts[own].append(rows[at : at + count])
            at += count
    for own in names:
        np.testing.assert_array_equal(np.concatenate(parts[own]), want[own], err_msg=f"{own}, seed {SEED}")


def test_long_prompts_are_cut_between_adapters_as_anywhere(tmp_path):
    checkpoint = CHECKPOINTS["llama"]
    backend = open_backend(build_folder(tmp_path, "llama", "plain"), tmp_path / "cache", "native")
    names = some_adapters(backend, checkpoint, tmp_path)
    rng = np.random.default_rng(SEED)
    prompts = {own: rng.integers(3, 60, 110 + i).tolist() for i, own in enumerate(names)}
    want = {own: Sequences(backend, 1, 128).step({0: (prompt, own)}) for own, prompt in prompts.items()}
    got = Sequences(backend, len(names), 128).step({i: (prompts[own], own) for i, own in enumerate(names)})
    np.testing.assert_array_equal(got, np.concatenate(list(want.values())), err_msg=f"seed {SEED}")


def answers_of(engine, requests):
    ids = [engine.submit(request) for request in requests]
    answers = {number: [] for number in ids}
    while engine.has_work:
        for event in engine.step():
            assert event.error is None, event.error
            if event.token_id is not None:
                answers[event.request_id].append(event.token_id)
    return [answers[number] for number in ids]


@pytest.mark.parametrize("kind", ["packed", "dense", "native"])
def test_an_engine_answers_requests_of_several_adapters_as_each_alone(kind, tmp_path):
    backend = open_backend(build_folder(tmp_path, "llama", "plain"), tmp_path / "cache", kind)
    names = some_adapters(backend, CHECKPOINTS["llama"], tmp_path)
    rng = np.random.default_rng(SEED)
    shared = rng.integers(3, 60, 70).tolist()
    requests = [
        EngineRequest(
            [*shared[: 70 - i], 3 + i], max_new_tokens=6, ignore_eos=True, adapter=names[i % len(names)]
        )
        for i in range(8)
    ]
    budgets = SchedulerConfig(max_seqs=5, max_step_tokens=48, chunk_tokens=32)
    alone = []
    for request in requests:
        with contextlib.closing(
            EngineCore(backend, EngineConfig(cache_tokens=1024), context_length=128)
        ) as engine:
            alone += answers_of(engine, [request])
    config = EngineConfig(scheduler=budgets, cache_tokens=1024)
    with contextlib.closing(EngineCore(backend, config, context_length=128)) as engine:
        assert answers_of(engine, requests) == alone, f"seed {SEED}"
        # once more, with all prefixes there
        assert answers_of(engine, requests[::-1]) == alone[::-1], f"seed {SEED}"
        engine.check_integrity()
    assert backend.adapters.names == names[1:]
    for name in names[1:]:
        backend.adapters.unload(name)


@pytest.mark.parametrize("kind", ["packed", "native"])
def test_adapters_come_and_go_while_steps_run(kind, tmp_path):
    checkpoint = CHECKPOINTS["llama"]
    backend = open_backend(build_folder(tmp_path, "llama", "plain"), tmp_path / "cache", kind)
    files = [
        write_peft(tmp_path / str(i), random_pairs(checkpoint, seed=SEED + i, rank=1 + 9 * i, only=only))
        for i, only in enumerate([("q_proj",), ("up_proj", "o_proj"), ()])
    ]
    backend.adapters.load(read_adapter(files[1], "stays"))
    want = {name: logits(backend, PROMPT, name) for name in (None, "stays")}
    done, failures = threading.Event(), []

    def come_and_go():
        try:
            for i in range(6):
                backend.adapters.load(read_adapter(files[i % 3], "comes"))
                backend.adapters.unload("comes")
        except Exception as failure:  # noqa: BLE001 - told to the test
            failures.append(failure)
        finally:
            done.set()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    sequences, rounds = Sequences(backend, 2), 0
    while not done.is_set() or not rounds:
        for i, name in enumerate(want):
            sequences.lengths[i] = 0
            np.testing.assert_array_equal(
                sequences.step({i: (PROMPT, name)}), want[name], err_msg=f"seed {SEED}"
            )
        rounds += 1
    thread.join()
    assert not failures
    assert backend.adapters.names == ("stays",)
