"""The kernels that choose tokens and judge them, all at once."""

from __future__ import annotations

from onnxgen.graph.cpu.draw_calls import draw_kernels
from onnxgen.graph.cpu.logprobs import logprobs_kernel
from onnxgen.graph.cpu.masked_rows import mask_row_kernel
from onnxgen.graph.cpu.step.code_store import default_store
from onnxgen.graph.cpu.suffixes import suffixes_kernel
from onnxgen.graph.cpu.token_counts import token_counts_kernel


def prepare_choosing() -> None:
    """Compile what this machine has none of yet, several at once: some seconds, once, and no request waits for it."""
    judging = [logprobs_kernel(), suffixes_kernel(), token_counts_kernel(), mask_row_kernel()]
    default_store().prepare([*draw_kernels(), *judging])
