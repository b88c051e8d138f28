import io

from onnxgen.cli.repl import Repl


class Script:
    """Messages, or what reading them raises."""

    def __init__(self, *items):
        self.items = list(items)

    def read(self):
        item = self.items.pop(0) if self.items else EOFError()
        if isinstance(item, BaseException):
            raise item
        return item


class Echo:
    def send(self, text):
        raise AssertionError(f"{text!r} was sent")


def test_ctrl_c_at_the_prompt_hints_and_goes_on():
    notes = []
    Repl(Echo(), Script(KeyboardInterrupt(), "/help"), out=io.StringIO(), notes=notes.append).run()
    assert notes[0].startswith("Ctrl-D or /exit leaves")
    assert "/system TEXT" in notes[1]


def test_aliases_leave_too():
    for word in ("/exit", "/bye", "/quit"):
        script = Script(word, "never")
        Repl(Echo(), script, out=io.StringIO(), notes=lambda text: None).run()
        assert script.items == ["never"]
