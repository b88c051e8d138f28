import json

import pytest

from onnxgen.engine.trace import EngineTrace
from onnxgen.engine.traced_mover import TracedMover
from onnxgen.kvcache.tiers import Piece


class Mover:
    """Does what it is told to answer."""

    def __init__(self, *, works):
        self.works, self.calls = works, []

    def save(self, key, pieces):
        self.calls.append(("save", key, pieces))
        return 8 if self.works else None

    def to_disk(self, key):
        self.calls.append(("to_disk", key))
        return self.works

    def load(self, key, pieces):
        self.calls.append(("load", key, pieces))
        return self.works

    def forget(self, key):
        self.calls.append(("forget", key))


@pytest.mark.parametrize("works", [True, False])
def test_what_moves_is_written_down_and_answers_pass_through(tmp_path, works):
    trace = EngineTrace(
        tmp_path / "t", num_blocks=4, block_size=4, max_seqs=1, max_step_tokens=4, chunk_tokens=4
    )
    mover = Mover(works=works)
    traced = TracedMover(mover, trace)
    pieces = [Piece(3, 4), Piece(1, 2, 1)]
    assert traced.save(7, pieces) == (8 if works else None)
    assert traced.to_disk(7) is works
    assert traced.load(7, pieces) is works
    traced.forget(7)
    trace.close()
    assert mover.calls == [("save", 7, pieces), ("to_disk", 7), ("load", 7, pieces), ("forget", 7)]
    moved = [json.loads(line) for line in (tmp_path / "t").read_text("utf-8").splitlines()[2:-1]]
    content = {"key": 7, "pieces": [[3, 4, 0], [1, 2, 1]]}
    expected = [("swap_out", content), ("swap_in", content)] if works else [("swap_lost", content)]
    assert [(m.pop("event"), {k: v for k, v in m.items() if k != "n"}) for m in moved] == expected
