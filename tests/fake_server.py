"""A worker of the serving benchmark without a model, as the code of a process."""

import sys
import textwrap
from dataclasses import dataclass

from benchmarks.peers.contenders import Contender
from benchmarks.peers.worker import Worker


class FakeServer:
    """Answers ``max_seqs`` requests at a time, a token of each in a step: the length of its prompt, then one more each time."""

    def __init__(self, setup):
        self.setup = setup
        self.open = {}
        self.most_running = 0
        self.prompts = {}

    @property
    def has_work(self):
        return bool(self.open)

    def submit(self, number, prompt, new_tokens):
        self.prompts[number] = prompt
        self.open[number] = [len(prompt), new_tokens]

    def step(self):
        running = list(self.open)[: self.setup.max_seqs]
        self.most_running = max(self.most_running, len(running))
        found = []
        for number in running:
            token, remaining = self.open[number]
            found.append((number, token))
            self.open[number] = [token + 1, remaining - 1]
            if remaining == 1:
                del self.open[number]
        return found

    def cached_tokens(self, number):
        return 3 if self.setup.prefix_reuse else 0

    def parts(self):
        return {"backend": 1e-9, "plan": 0.0, "pack": 0.0, "sample": 0.0}


_CODE = """
from fake_server import FakeServer
from benchmarks.serving.workers.driving import serve_scenarios

class Program:
    def __init__(self, path, threads):
        pass

    def open(self, setup):
        {on_open}
        return FakeServer(setup)

    def endure(self, request):
        numbers = range(request["every"], request["requests"] + 1, request["every"])
        ended = dict(length=30, cancelled=10, error=5, refused=5, preempted=2)
        one = dict(rss_mb=100.0, blocks_in_use=0, blocks_cached=4, ended=ended)
        return {"samples": [dict(one, requests=number) for number in numbers]}

serve_scenarios(Program, ["numpy"], {"endure": Program.endure})
"""


@dataclass(frozen=True)
class FakeServing(Contender):
    """A contender whose process serves so."""

    on_open: str = "pass"

    def lacks(self, environments, models, model):
        return None

    def start(self, environments):
        code = textwrap.dedent(_CODE).replace("{on_open}", self.on_open)
        paths = [path for path in sys.path if path]
        return Worker([sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{code}"])
