import numpy as np
import onnxruntime
import pytest

from onnxgen.backends.base import SequenceInput, pack_step
from onnxgen.backends.ort import slots
from onnxgen.backends.ort.backend import OrtBackend
from onnxgen.backends.ort.plan_kind import PlanKind
from onnxgen.errors import BackendError, StepError
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_decoders import Sizes, Style, TinyDecoder, decoder_model


def load(tmp_path, style=None, *, sizes=None, plan=None, **config):
    decoder = TinyDecoder(sizes or Sizes(), 5)
    model = decoder_model(decoder, style or Style(), tmp_path / "m.onnx")
    return decoder, OrtBackend(model, RuntimeConfig(threads=1, cache_dir=tmp_path, **config), plan=plan)


@pytest.mark.parametrize("style", [Style(), Style("plain")])
def test_a_cache_beyond_the_memory_limit_is_refused_with_both_sizes(tmp_path, style):
    _, backend = load(tmp_path, style, memory_limit_mb=1)
    # 2 layers, keys and values, 2 heads of 16 floats: 512 bytes a token
    backend.create_cache(num_seqs=64, num_tokens=32)
    with pytest.raises(BackendError, match=r"65 sequences of 32 tokens takes 1\.0 MiB, the limit is 1 MiB"):
        backend.create_cache(num_seqs=65, num_tokens=32)


def test_memory_that_cannot_be_had_is_said_in_bytes(tmp_path, monkeypatch):
    _, backend = load(tmp_path)

    def zeros(*args):
        raise MemoryError

    monkeypatch.setattr(slots, "_zeros", zeros)
    with pytest.raises(BackendError, match=r"1 sequences of 8 tokens takes 0\.0 MiB, more than there is"):
        backend.create_cache(num_seqs=1, num_tokens=8)


def test_other_providers_take_the_plan_without_ragged_attention(tmp_path):
    other = next(p for p in onnxruntime.get_available_providers() if p != "CPUExecutionProvider")
    decoder, backend = load(tmp_path, providers=(other,))
    assert backend.plan_kind is PlanKind.BATCHED
    assert not backend.capabilities.ragged
    cache = backend.create_cache(num_seqs=1, num_tokens=8)
    logits = backend.execute(pack_step([SequenceInput([1, 2, 3], 0, [0])]), cache).logits
    assert np.abs(logits[0] - decoder.logits([1, 2, 3])[-1]).max() < 1e-4


def test_a_cache_needs_room(tmp_path):
    _, backend = load(tmp_path)
    with pytest.raises(StepError, match="0 sequences of 8 tokens"):
        backend.create_cache(num_seqs=0, num_tokens=8)


def test_sequences_that_cross_the_switch_of_rotary_tables_are_refused(tmp_path):
    decoder, backend = load(tmp_path, sizes=Sizes(rope_switch=6))
    cache = backend.create_cache(num_seqs=1, num_tokens=16)
    backend.execute(pack_step([SequenceInput([1, 2, 3, 4, 5], 0, [0])]), cache)
    with pytest.raises(StepError, match="goes to 7 tokens, on the other side of 6"):
        backend.execute(pack_step([SequenceInput([6, 7], 5, [0])]), cache)
    logits = backend.execute(pack_step([SequenceInput([1, 2, 3, 4, 5, 6, 7], 0, [0])]), cache).logits
    assert np.abs(logits[0] - decoder.logits([1, 2, 3, 4, 5, 6, 7])[-1]).max() < 1e-4


def test_repeated_decode_steps_are_still_checked(tmp_path):
    decoder, backend = load(tmp_path)
    cache = backend.create_cache(num_seqs=2, num_tokens=6)
    sequence = [1, 2, 3]
    backend.execute(pack_step([SequenceInput(sequence, 0, [1])]), cache)
    for token in (4, 5, 6):
        logits = backend.execute(pack_step([SequenceInput([token], len(sequence), [1])]), cache).logits
        sequence.append(token)
        assert np.abs(logits[0] - decoder.logits(sequence)[-1]).max() < 1e-4
    for bad, message in (
        (SequenceInput([7], 6, [1]), "needs room for 7 tokens"),
        (SequenceInput([7], -1, [1]), "context_len -1"),
        (SequenceInput([61], 3, [1]), r"outside \[0, 61\)"),
        (SequenceInput([7], 2, [0]), "only 0 positions"),
    ):
        with pytest.raises((StepError, ValueError), match=message):
            backend.execute(pack_step([bad]), cache)
    logits = backend.execute(pack_step([SequenceInput([9], 4, [1])]), cache).logits
    assert np.abs(logits[0] - decoder.logits([*sequence[:4], 9])[-1]).max() < 1e-4
