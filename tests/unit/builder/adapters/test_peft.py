import json
import secrets

import numpy as np
import pytest

from checkpoints import CHECKPOINTS
from onnxgen.builder.adapters import read_adapter
from onnxgen.errors import CapabilityError, CheckpointError, ModelNotFoundError
from peft_by_hand import random_pairs, write_peft
from safetensors_by_hand import write_safetensors

SEED = secrets.randbits(32)
Q, DOWN = "model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"


def pairs(rank=4):
    return random_pairs(CHECKPOINTS["llama"], seed=SEED, rank=rank, only=("q_proj", "down_proj"))


def check(adapter, given, scale_of):
    assert set(adapter.pairs) == set(given)
    for module, (a, b) in given.items():
        np.testing.assert_array_equal(adapter.pairs[module].a, a, err_msg=f"seed {SEED}")
        np.testing.assert_allclose(adapter.pairs[module].b, b * scale_of(module), rtol=1e-6)


@pytest.mark.parametrize(
    ("config", "scale_of"),
    [
        ({}, lambda _: 1.0),
        ({"alpha": 6}, lambda _: 1.5),
        ({"alpha": 6, "use_rslora": True}, lambda _: 3.0),
        ({"alpha_pattern": {"q_proj": 10}}, lambda m: 2.5 if m.endswith("q_proj") else 1.0),
        ({"alpha_pattern": {r"layers\.1\.mlp\..*": 10}}, lambda m: 2.5 if m == DOWN else 1.0),
        ({"alpha_pattern": {"proj": 10}}, lambda _: 1.0),  # only whole names at the end fit
        ({"fan_in_fan_out": True, "target_modules": "all-linear"}, lambda _: 1.0),
        ({"target_modules": r".*\.(q|down)_proj", "layers_to_transform": [0, 1]}, lambda _: 1.0),
    ],
)
def test_weights_and_scales_are_read(config, scale_of, tmp_path):
    given = pairs()
    check(read_adapter(write_peft(tmp_path / "a", given, **config), "x"), given, scale_of)


def test_modules_may_have_ranks_of_their_own(tmp_path):
    given = {**pairs(4), **{k: v for k, v in pairs(2).items() if k.endswith("q_proj")}}
    order = {k: given[k] for k in sorted(given, key=lambda k: "down" not in k)}
    folder = write_peft(tmp_path / "a", order, rank_pattern={"q_proj": 2})
    check(read_adapter(folder, "x"), given, lambda m: 2.0 if m.endswith("q_proj") else 1.0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_floats_are_widened(dtype, tmp_path):
    folder = write_peft(tmp_path / "a", pairs(), dtype=dtype)
    adapter = read_adapter(folder, "x")
    assert adapter.pairs[Q].a.dtype == np.float32
    np.testing.assert_allclose(adapter.pairs[Q].a, pairs()[Q][0], rtol=1e-2)


def test_either_file_stands_for_the_folder(tmp_path):
    folder = write_peft(tmp_path / "é 模型", pairs())
    digests = {
        read_adapter(path, "x").digest
        for path in (folder, folder / "adapter_config.json", folder / "adapter_model.safetensors")
    }
    assert len(digests) == 1
    other = write_peft(tmp_path / "other", pairs(), alpha=9)
    assert read_adapter(other, "x").digest not in digests, "the scale is part of what an adapter computes"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"use_dora": True}, r"DoRA.*merge the adapter"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"bias": "all"}, "bias='all'"),
        ({"lora_bias": True}, "lora_bias"),
        (
            {"init_lora_weights": "pissa_niter_4"},
            "initialized by pissa_niter_4, which changes the base model",
        ),
        ({"layer_replication": [[0, 1]]}, "layers are repeated"),
    ],
)
def test_what_is_more_than_low_rank_matrices_is_refused(config, message, tmp_path):
    with pytest.raises(CapabilityError, match=message):
        read_adapter(write_peft(tmp_path / "a", pairs(), **config), "x")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("base_model.model.model.embed_tokens.lora_embedding_A", "changes an embedding"),
        (f"base_model.model.{Q}.lora_magnitude_vector", "DoRA"),
        ("base_model.model.lm_head.weight", "neither lora_A nor lora_B"),
    ],
)
def test_tensors_of_other_kinds_are_refused(name, message, tmp_path):
    folder = write_peft(tmp_path / "a", pairs())
    write_safetensors(folder / "adapter_model.safetensors", {name: np.zeros((2, 3), np.float32)}, "float32")
    with pytest.raises(CapabilityError, match=message):
        read_adapter(folder, "x")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"r": 8}, f"says rank 8 for {DOWN.replace('1', '0')}, its lora_A has 4 rows"),
        ({"r": "many"}, "r is 'many', expected a number"),
        ({"r": True}, "r is True"),
        ({"lora_alpha": None}, "lora_alpha is None"),
        ({"alpha_pattern": {"(a+)+": 3}}, "too complex"),
        ({"alpha_pattern": {".*" * 20 + "x": 3}}, "too complex"),
        ({"lora_alpha": 1e38}, "lora_alpha is 1e\\+38"),
        ({"alpha_pattern": {"(": 3}}, "is no pattern"),
        ({"rank_pattern": [1]}, "must map names"),
    ],
)
def test_a_configuration_that_contradicts_the_weights_is_refused(config, message, tmp_path):
    folder = write_peft(tmp_path / "a", pairs())
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    with pytest.raises(CheckpointError, match=message):
        read_adapter(folder, "x")


def broken(tensors):
    def write(folder):
        named = {f"base_model.model.{Q}.lora_{k}.weight": np.float32(v) for k, v in tensors.items()}
        write_safetensors(folder / "adapter_model.safetensors", named, "float32")

    return write


def cut(folder):
    file = folder / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-3])


def hostile(folder):
    (folder / "adapter_model.safetensors").write_bytes((1 << 62).to_bytes(8, "little") + b"{}")


def link_away(folder):
    file = folder / "adapter_model.safetensors"
    file.rename(folder.parent / "elsewhere")
    file.symlink_to(folder.parent / "elsewhere")


def pickled(folder):
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (broken({"A": np.ones((4, 3))}), "has no lora_B"),
        (
            broken({"A": np.ones((4, 3)), "B": np.ones((3, 2))}),
            r"\[4, 3\] and lora_B \[3, 2\]; their ranks differ",
        ),
        (broken({"A": np.ones((4, 3, 1)), "B": np.ones((3, 4))}), r"shape \[4, 3, 1\], expected a matrix"),
        (broken({"A": np.full((4, 3), np.nan), "B": np.ones((3, 4))}), "NaN"),
        (broken({}), "holds no weights"),
        (cut, "cut off"),
        (hostile, "header"),
        (link_away, "outside the model folder"),
        (pickled, "a pickle"),
        (lambda f: (f / "adapter_config.json").unlink(), "adapter_config.json does not exist"),
        (lambda f: (f / "adapter_config.json").write_text("{"), "adapter_config.json"),
    ],
)
def test_broken_folders_are_refused(damage, message, tmp_path):
    folder = write_peft(tmp_path / "a", pairs())
    damage(folder)
    with pytest.raises(CheckpointError, match=message):
        read_adapter(folder, "x")


def test_what_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(ModelNotFoundError, match="expected a PEFT folder"):
        read_adapter(tmp_path / "nothing", "x")
    (tmp_path / "x.bin").write_bytes(b"1")
    with pytest.raises(CheckpointError, match="pickle"):
        read_adapter(tmp_path / "x.bin", "x")
