"""Who is measured: the peers that answer many requests at once on a CPU, and onnxgen's engine on its backends."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.peers.contenders import CONTENDERS as PEERS

# onnxruntime-genai is not among them: on a CPU a request that comes later waits for the whole batch
CONTENDERS = tuple(
    replace(contender, workers="benchmarks.serving.workers") for contender in PEERS if contender.form != "og"
)
