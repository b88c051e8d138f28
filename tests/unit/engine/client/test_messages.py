"""Events are the same on the other side."""

import pickle
from contextlib import nullcontext

import pytest

from onnxgen.engine.client.messages import Stepped, Stop, Submit
from onnxgen.engine.client.serve import serve
from onnxgen.engine.events import EngineEvent, TokenUsage
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.logprobs import TokenLogprobs
from scripted_core import ScriptedCore

ALONE = TokenLogprobs(7, -0.5, 1)
AMONG = TokenLogprobs(8, float("-inf"), 40, ((1, -0.25), (2, -3.5)))
EVENTS = [
    EngineEvent(0, 0, 5),
    EngineEvent(0, 1, 7, logprobs=ALONE, prompt_logprobs=(None, AMONG, ALONE)),
    EngineEvent(0, 2, 8, finish_reason="length", usage=TokenUsage(1, 2, 3), logprobs=AMONG),
    EngineEvent(0, 3, finish_reason="length", usage=TokenUsage(3, 0, 0), prompt_logprobs=(ALONE,)),
    EngineEvent(0, 4, finish_reason="length", usage=TokenUsage(1, 0, 0), prompt_logprobs=()),
]


class Telling(ScriptedCore):
    """Tells certain events of its first request, whatever was asked."""

    def step(self):
        self._produced.clear()
        return EVENTS


def told_by(commands):
    """What a core with these events reports."""
    reports = []

    class Commands:
        put = None

        def get(self):
            return commands.pop(0)

        def empty(self):
            return True

    serve(lambda: nullcontext(Telling()), Commands(), reports.append)
    return [report for report in reports if isinstance(report, Stepped)]


def test_every_event_arrives_as_it_was():
    [stepped] = told_by([Submit(0, EngineRequest([1], n=len(EVENTS))), Stop()])
    assert pickle.loads(pickle.dumps(stepped)).events() == EVENTS
    assert 0 not in stepped.scores, "events without log probabilities cost nothing"


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_survives_by_itself(event):
    assert pickle.loads(pickle.dumps(event)) == event
