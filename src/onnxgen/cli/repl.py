"""The conversation on the command line: read, answer, and commands that begin with a slash."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import IO, TYPE_CHECKING

from onnxgen.cli.answers import Answer, statistics, write_answer
from onnxgen.cli.conversations import Conversation
from onnxgen.cli.failures import report
from onnxgen.cli.message_input import MessageInput
from onnxgen.errors import ContextLengthError, OnnxgenError
from onnxgen.foundations.suggest import did_you_mean

if TYPE_CHECKING:
    from onnxgen.facade.llm import Chunk
    from onnxgen.preprocess.tool_calls.tools import ToolCall

_HELP = '''\
/help          this list
/reset         forget the conversation (the system message stays)
/system TEXT   set the system message and begin anew; without TEXT show it, with - remove it
/result TEXT   what a tool gave that the answer called: one for each call, in their order
/stats         numbers of the last answer and of the session
/exit          leave; Ctrl-D does too
"""            begins and ends a message of several lines; Alt-Enter breaks a line
//...           a message that begins with a slash
Ctrl-C         stops an answer'''


class Repl:
    """Reads messages and answers them until the user leaves."""

    def __init__(
        self,
        conversation: Conversation,
        messages: MessageInput,
        *,
        out: IO[str],
        notes: Callable[[str], None],
        system: str | None = None,
        verbose: bool = False,
    ) -> None:
        self._conversation = conversation
        self._messages = messages
        self._out = out
        self._note = notes
        self._system = system
        self._verbose = verbose
        self._last: Answer | None = None
        self._calls: tuple[ToolCall, ...] = ()
        self._results: list[str] = []
        self._num_answers = 0
        self._num_tokens = 0
        self._commands: Mapping[str, Callable[[str], bool]] = {
            "help": self._help,
            "reset": self._reset,
            "system": self._set_system,
            "result": self._result,
            "stats": self._stats,
            "exit": self._exit,
        }
        self._aliases = {"?": "help", "clear": "reset", "bye": "exit", "quit": "exit"}

    def run(self) -> None:
        """Converse until the user leaves or there is no more input."""
        goes_on = True
        while goes_on:
            try:
                goes_on = self._handle(self._messages.read())
            except EOFError:
                return
            except KeyboardInterrupt:
                self._note("Ctrl-D or /exit leaves, /help shows what else there is")

    def _handle(self, message: str) -> bool:
        if not message.strip():
            return True
        try:
            if message.startswith("/") and not message.startswith("//"):
                return self._command(message[1:])
            self._answer(message[1:] if message.startswith("//") else message)
        except KeyboardInterrupt:
            self._note("stopped")
        except ContextLengthError as error:
            report(error, verbose=self._verbose)
            self._note("/reset begins a new conversation")
        except OnnxgenError as error:
            report(error, verbose=self._verbose)
        return True

    def _answer(self, message: str) -> None:
        self._write(lambda: self._conversation.send(message))

    def _result(self, rest: str) -> bool:
        calls = self._calls
        if not calls:
            self._note("the last answer called no tool")
            return True
        self._results.append(rest)
        if len(self._results) < len(calls):
            self._note(f"and the result of {calls[len(self._results)].name}?")
            return True
        results, self._results = self._results, []
        self._write(lambda: self._conversation.send_results(results))
        return True

    def _write(self, ask: Callable[[], Iterator[Chunk]]) -> None:
        self._results = []
        self._last = write_answer(ask, self._out)
        self._calls = self._last.completion.tool_calls if self._last.completion else ()
        self._num_answers += 1
        self._num_tokens += self._last.num_tokens
        if self._last.completion is None:
            self._note("stopped")
        if self._verbose:
            self._note(statistics(self._last))

    def _command(self, text: str) -> bool:
        word, _, rest = text.partition(" ")
        word = word.strip()
        command = self._commands.get(self._aliases.get(word, word))
        if command is None:
            hint = did_you_mean(word, self._commands).replace("mean '", "mean '/")
            self._note(
                f"/{word} is not a command{hint}. /help lists them; "
                "a message that begins with a slash is written with two"
            )
            return True
        return command(rest.strip())

    def _help(self, rest: str) -> bool:
        del rest
        self._note(_HELP)
        return True

    def _reset(self, rest: str) -> bool:
        del rest
        self._begin_anew()
        self._note("the conversation begins anew")
        return True

    def _begin_anew(self) -> None:
        self._conversation.reset()
        self._calls, self._results = (), []

    def _set_system(self, rest: str) -> bool:
        if not rest:
            self._note(f"system message: {self._system}" if self._system else "there is no system message")
            return True
        self._system = None if rest == "-" else rest
        self._conversation.set_system(self._system)
        self._begin_anew()
        self._note(
            "the conversation begins anew, with this system message"
            if self._system
            else "the conversation begins anew, without a system message"
        )
        return True

    def _stats(self, rest: str) -> bool:
        del rest
        if self._last is None:
            self._note("there was no answer yet")
            return True
        self._note(f"last answer: {statistics(self._last)}")
        self._note(f"session: {self._num_answers} answers, {self._num_tokens} tokens")
        return True

    def _exit(self, rest: str) -> bool:
        del rest
        return False
