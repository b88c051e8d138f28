"""The table of the documentation has every family, with its kind and labels."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

from onnxgen.server.observe.observer import Observer

PAGE = Path(__file__).parents[4] / "docs/reference/metrics.md"
ROW = re.compile(
    r"^\| `(?P<name>onnxgen_\w+)` \| (?P<kind>\w+) \| (?P<labels>[\w, ]*) \| (?P<text>.*) \|$", re.MULTILINE
)


def test_the_table_has_what_is_counted():
    async def registry():
        observer = Observer()
        observer.start(SimpleNamespace(loaded=list, statuses=list), sessions=[])  # type: ignore[arg-type]
        await observer.aclose()
        return observer.metrics.registry

    families = list(asyncio.run(registry()).collect())
    counted = {
        f.name + ("_total" if f.type == "counter" else ""): (f.type, f.documentation) for f in families
    }
    shown = {row["name"]: (row["kind"], row["text"]) for row in ROW.finditer(PAGE.read_text("utf-8"))}
    assert shown == counted
