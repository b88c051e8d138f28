"""Names of the kernels' arguments, in the order of a row's words; `onnxgen.graph.cpu.paged_attention` describes them."""

from __future__ import annotations

WRITE = (
    *("rows", "row_bytes", "query_column", "key_column", "value_column", "kv_heads", "group", "scale"),
    *("query_norm", "key_norm", "epsilon", "cos", "sin"),
    *("queries", "query_scales", "pages", "block_bytes", "slots_word"),
)

PLAN = ("items", "most_items", "most_partials", "kv_heads", "group", "window", "workers")

ATTEND = (
    *("queries", "query_scales", "pages", "block_bytes", "out", "out_stride"),
    *("table_word", "kv_heads", "group", "window", "softcap", "sinks", "items", "partials"),
)


def words(names: tuple[str, ...], *wanted: str) -> tuple[int, ...]:
    """Indices of these arguments in a row, whose word 0 is the kernel's."""
    return tuple(1 + names.index(name) for name in wanted)
