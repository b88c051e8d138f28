"""A build holds about one tensor at a time, however large the checkpoint is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from checkpoint_weights import stored_shapes

_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 50_000,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 15,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e4,
    "tie_word_embeddings": True,
    "eos_token_id": 1,
}
_BUILD = """
import sys
from pathlib import Path
from onnxgen.builder import BuildOptions, build
build(sys.argv[1], Path(sys.argv[2]), options=BuildOptions(sys.argv[3]))
status = Path("/proc/self/status").read_text().splitlines()
print(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 MB in float16 in six shards; the largest tensor has 102 MB."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "config.json").write_text(json.dumps(_CONFIG))
    noise = np.random.default_rng(0).standard_normal(1 << 20).astype(np.float16)
    shards: list[dict[str, np.ndarray]] = [{} for _ in range(6)]
    for index, (name, shape) in enumerate(stored_shapes(_CONFIG).items()):
        shards[index % 6][name] = np.resize(noise, shape)
    for index, tensors in enumerate(shards, start=1):
        save_file(tensors, folder / f"model-{index:05}-of-00006.safetensors")
    assert sum(file.stat().st_size for file in folder.iterdir()) > 550e6
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; ru_maxrss would start at the parent's")
@pytest.mark.parametrize("precision", ["int4", "fp32"])
def test_memory_stays_under_twice_the_largest_tensor_and_300_mb(
    precision: str, checkpoint: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(checkpoint), str(tmp_path / "model"), precision],
        capture_output=True,
        text=True,
        check=True,
    )
    peak = int(done.stdout) * 1024
    largest = 50_000 * 1024 * 2
    print(f"{precision}: peak {peak / 1e6:.0f} MB, largest tensor {largest / 1e6:.0f} MB")
    assert 30e6 < peak < 2 * largest + 300e6
