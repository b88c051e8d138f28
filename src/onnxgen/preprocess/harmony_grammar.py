"""Grammar of a harmony answer: reasoning, words in front of calls, then calls or the final message.

After a call the model ends its turn by itself; several calls follow each other as messages.
"""

from __future__ import annotations

from onnxgen.preprocess.harmony_header import read_header
from onnxgen.preprocess.harmony_markers import Control, open_header
from onnxgen.preprocess.lark_text import LarkText, one_of
from onnxgen.preprocess.tool_calls.call_grammar import arguments
from onnxgen.preprocess.tool_calls.grammar import ToolRule

_CHANNEL, _MESSAGE, _END, _CALL = (
    c.value for c in (Control.CHANNEL, Control.MESSAGE, Control.END, Control.CALL)
)
_ASSISTANT = f"{Control.START.value}assistant"


class HarmonyGrammar:
    """Symbols for an answer in harmony messages.

    Args:
        lark: Takes the rules.
        prompt: The prompt (`ChatPrompt.shadowed`), at whose end a message may have begun.
    """

    def __init__(self, lark: LarkText, prompt: str) -> None:
        self._lark = lark
        self._open = open_header(prompt)
        until_end = lark.until(_END)
        self._analysis = lark.rule("analysis", f"{self._header('analysis')} {until_end}")
        self._preamble = lark.rule("preamble", f"{self._header('commentary')} {until_end}")
        self._assistant = lark.literal(_ASSISTANT)

    def answer(self, content: str | None, tools: ToolRule | None) -> str:
        """Symbols for the whole answer.

        Args:
            content: A symbol for the final message; None: any text.
            tools: What may be called.
        """
        free = self._lark.free_text()
        final = self._lark.rule("final", f"{self._header('final')} {content or free}")
        if tools is None:
            ways, may_say = [final], False
        else:
            calls = self._calls(tools)
            ways = [calls] if tools.is_required else [calls, final]
            may_say = content is None
        before = one_of((self._analysis, self._preamble)) if may_say else self._analysis
        rest = one_of(ways)
        messages = self._lark.rule("messages", f"({before} {self._assistant})* {rest}")
        return self._goes_on(messages, free, content, rest)

    def _goes_on(self, messages: str, free: str, content: str | None, rest: str) -> str:
        """The answer from where the prompt ends: at a header, or inside of a message."""
        if _MESSAGE not in self._open or _END in self._open:
            return messages if self._open else f"({self._assistant})? {messages}"
        if read_header(self._open.partition(_MESSAGE)[0]).channel == "final":
            return content or free
        return f"{self._lark.until(_END)} {self._assistant} {messages}"

    def _header(self, channel: str) -> str:
        return self._lark.literal(f"{_CHANNEL}{channel}{_MESSAGE}")

    def _calls(self, tools: ToolRule) -> str:
        lark = self._lark
        call = lark.rule(
            "call", one_of(self._call(tool.name, arguments(lark, tool)) for tool in tools.offered)
        )
        # What ends a call is, in most folders, also a token that ends the answer.
        end = f"({lark.literal(_CALL)})?"
        if tools.is_single:
            return lark.rule("calls", f"{call} {end}")
        ends = one_of((lark.literal(_CALL), lark.literal(_END)))
        return lark.rule("calls", f"{call} ({ends} {self._assistant} {call})* {end}")

    def _call(self, name: str, values: str) -> str:
        lark = self._lark
        body = f"{lark.literal(Control.CONSTRAIN.value + 'json')} {lark.literal(_MESSAGE)} {values}"
        in_channel = f"{lark.literal(f'{_CHANNEL}commentary to=functions.{name}')} {lark.blanks()} {body}"
        in_role = f"{lark.literal(f' to=functions.{name}{_CHANNEL}commentary')} {lark.blanks()} {body}"
        return f"({in_channel} | {in_role})"
