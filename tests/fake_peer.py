"""A worker of the peers' benchmark without a model, as the code of a process."""

import sys
import textwrap
from dataclasses import dataclass

from benchmarks.peers.contenders import Contender
from benchmarks.peers.worker import Worker

_CODE = """
import os
from benchmarks.peers.workers.serving import StreamTimes, serve

class Fake:
    def __init__(self, path, threads):
        print("loading", path, "with", threads, "threads")
        if path.name == "broken":
            raise ValueError("no model at all")

    def prefill(self, prompt):
        return len(prompt) / 100

    def decode(self, prompt, new_tokens):
        return (new_tokens - 1) / 20

    def streams(self, prompts, new_tokens):
        {streams}
        return StreamTimes(decode_s=2.0, total_s=4.0)

serve(Fake, ["numpy"])
"""


def fake_command(streams="pass"):
    """The command of a worker whose ``streams`` does this first."""
    return [sys.executable, "-c", textwrap.dedent(_CODE).replace("{streams}", streams)]


def start_fake(streams="pass"):
    """A running worker."""
    return Worker(fake_command(streams))


@dataclass(frozen=True)
class FakeContender(Contender):
    """A contender whose process is such a worker."""

    streams: str = "pass"

    def lacks(self, environments, models, model):
        return None

    def start(self, environments):
        return start_fake(self.streams)
