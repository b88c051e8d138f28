import io
import sys

from onnxgen.cli import progress as module
from onnxgen.cli.progress import Bars, PlainLines, make_progress


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def lines_of(amounts, *, total, seconds, unit="bytes"):
    stream, clock = io.StringIO(), Clock()
    with PlainLines(stream, clock=clock).start("Fetching x", total=total, unit=unit) as task:
        for amount in amounts:
            clock.now += seconds
            task.advance(amount)
    return stream.getvalue().splitlines()


def test_there_is_one_line_for_each_tenth():
    lines = lines_of([1_000_000] * 100, total=100_000_000, seconds=1)
    assert lines[0] == "Fetching x (100 MB)"
    assert [line.split(": ")[1].split(" %")[0] for line in lines[1:]] == [str(i) for i in range(10, 101, 10)]
    assert lines[1] == "Fetching x: 10 % (10 MB of 100 MB)"


def test_fast_work_takes_few_lines():
    assert len(lines_of([10] * 100, total=1000, seconds=0.001)) == 2


def test_unknown_totals_are_told_at_the_end():
    assert lines_of([500, 500], total=None, seconds=1) == ["Fetching x", "Fetching x: done, 1 kB"]


def test_other_units_are_counted():
    assert lines_of([1, 1], total=2, seconds=1, unit="layers")[-1] == "Fetching x: 100 % (2 of 2 layers)"


def test_empty_work_has_no_division_by_zero():
    assert lines_of([0], total=0, seconds=1) == ["Fetching x (0 B)"]


def test_no_bars_where_nobody_watches(capsys):
    assert isinstance(make_progress(), PlainLines)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_show_amount_and_rate_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    bars = module.make_progress()
    assert isinstance(bars, Bars)
    with bars.start("Fetching x", total=2_000_000) as outer:
        outer.advance(1_000_000)
        with bars.start("Building y", total=4, unit="layers") as inner:
            inner.advance(4)
        outer.advance(1_000_000)
    with bars.start("Again", total=None):
        pass
    shown = terminal.getvalue()
    assert "Fetching x" in shown and "2 MB/2 MB" in shown and "4/4 layers" in shown and "Again" in shown


def test_no_color_is_honoured(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    with module.make_progress().start("Fetching x", total=2) as task:
        task.advance(2)
    assert "\x1b[3" not in terminal.getvalue() and "Fetching x" in terminal.getvalue()
