"""Writes plans as Python source."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from weakref import finalize
from zlib import crc32

from onnxgen.graph.ir.types import TensorType, ValueType, type_name
from onnxgen.graph.planner.aliasing import origins
from onnxgen.graph.planner.layout import Layout
from onnxgen.graph.planner.plan import Form, Plan
from onnxgen.graph.planner.program import Call, Program

HEAP = Form()
"""Every kernel allocates; nothing else happens."""


def write_plan(program: Program, *, form: Form = HEAP, layout: Layout | None = None) -> Plan:
    """Write and compile the function that executes a program.

    ``make(kernels, constants, ...)`` unpacks what the function uses, which makes every name in it a fast one, and
    returns ``plan(run, *inputs, *given)``.

    Args:
        program: What its outputs need, and no more.
        form: What else the function does.
        layout: Which values live in an arena; None when all values are new memory.
    """
    writer = _Writer(program, form, layout)
    writer.write()
    source = "\n".join(writer.lines) + "\n"
    # tracebacks find the source by this name, so plans of one program must not share it
    file_name = f"<plan {crc32(source.encode()):08x} of {_one_line(program.name)}>.py"
    plan = Plan(program, layout, source, compile(source, file_name, "exec"), writer.calls_by_line)
    finalize(plan, linecache.cache.pop, file_name, None).atexit = False
    return plan


class _Writer:
    def __init__(self, program: Program, form: Form, layout: Layout | None) -> None:
        self.program = program
        self.form = form
        self.written = layout.written if layout else frozenset[int]()
        self.views = layout.views if layout else frozenset[int]()
        self.given = layout.given if layout else ()
        self.buffers = {buffer.value: buffer for buffer in layout.buffers} if layout else {}
        self.kernels = [_kernel_name(call, index) for index, call in enumerate(program.calls)]
        self.lines: list[str] = []
        self.calls_by_line: dict[int, Call] = {}

    def write(self) -> None:
        calls = self.program.calls
        self.lines += [f"# plan of {_one_line(self.program.name)}: {len(calls)} calls", "", ""]
        self.lines.append("def make(kernels, constants, *, fresh, span=None, view=None, buffers=()):")
        self._unpack(self.kernels, "kernels")
        self._unpack([self._name(value) for value in self.program.constants], "constants")
        self._unpack([self._name(value) for value in self.buffers], "buffers")
        for index in sorted(self.views):
            self._view(index, calls[index])
        self.lines.append("")
        parameters = (*self.program.inputs, *self.given)
        self.lines.append(f"    def plan({', '.join(['run', *map(self._name, parameters)])}):")
        for value in parameters:
            self.lines.append(f"        # {self._name(value)} is {_one_line(self._described(value))}")
        dead = self._dead_after()
        for index, call in enumerate(calls):
            if index not in self.views:
                self._call(index, call)
            if dead[index]:
                self.lines.append(f"        del {', '.join(map(self._name, dead[index]))}")
        self.lines.append(f"        return ({''.join(f'{result}, ' for result in self._results())})")
        self.lines += ["", "    return plan"]

    def _unpack(self, names: Sequence[str], source: str) -> None:
        for start in range(0, len(names), 8):
            part = names[start : start + 8]
            self.lines.append(f"    ({', '.join(part)},) = {source}[{start}:{start + len(part)}]")

    def _view(self, index: int, call: Call) -> None:
        targets = ", ".join(map(self._name, call.outputs))
        made = f"{self.kernels[index]}({self._arguments(call)})"
        (source,) = (v for v in call.inputs if v is not None and v not in self.program.constants)
        self._line(f"    {targets} = view({call.outputs}, {made}, {self._name(source)})", call)

    def _call(self, index: int, call: Call) -> None:
        if self.form.stoppable:
            self.lines.append("        run.check()")
        arguments = self._arguments(call)
        targets = ", ".join(self._name(value) if self._wanted(value) else "_" for value in call.outputs)
        inputs = ", ".join(["run", *filter(None, [arguments])]) if call.takes_run else arguments
        if index in self.written:
            line = f"{self.kernels[index]}({', '.join(filter(None, [inputs, targets]))})"
        else:
            line = f"{targets} = {self.kernels[index]}({inputs})"
        if self.form.traced:
            line = f"with span(run, {index}, {arguments}) as saw: {line}; saw({targets})"
        self._line(f"        {line}", call)

    def _line(self, line: str, call: Call) -> None:
        outputs = ", ".join(map(self._described, call.outputs))
        self.lines.append(f"{line}  # {_one_line(f'{call.spec} on {call.provider} -> {outputs}')}")
        self.calls_by_line[len(self.lines)] = call

    def _arguments(self, call: Call) -> str:
        return ", ".join("None" if value is None else self._name(value) for value in call.inputs)

    def _results(self) -> list[str]:
        """Outputs, copied where they may be memory of an input, a constant or an earlier output."""
        found = origins(self.program, written=self.written)
        taken = {*self.program.constants, *(() if self.form.lends else self.program.inputs)}
        results: list[str] = []
        for output in self.program.outputs:
            copied = not taken.isdisjoint(found[output])
            results.append(f"fresh({self._name(output)})" if copied else self._name(output))
            # what is lent may be lent twice
            taken |= found[output].difference(self.program.inputs if self.form.lends else ())
        return results

    def _dead_after(self) -> list[list[int]]:
        """For each call the values of the heap that nothing uses after it; inputs are the caller's to keep."""
        last: dict[int, int] = {}
        for index, call in enumerate(self.program.calls):
            for value in (*call.inputs, *call.outputs):
                if value is not None and self._wanted(value):
                    last[value] = index
        fixed = {value for index in self.views for value in self.program.calls[index].outputs}
        program = self.program
        kept = {*program.inputs, *program.constants, *program.outputs, *self.buffers, *self.given, *fixed}
        dead: list[list[int]] = [[] for _ in self.program.calls]
        for value in sorted(last.keys() - kept):
            dead[last[value]].append(value)
        return dead

    def _wanted(self, value: int) -> bool:
        return bool(self.program.values[value].name)

    def _name(self, value: int) -> str:
        return f"w{value}" if value in self.program.constants else f"v{value}"

    def _described(self, value: int) -> str:
        known = self.program.values[value]
        text = f"{known.name}: {describe_type(known.type)}" if known.name else "nothing"
        buffer = self.buffers.get(value)
        if buffer is None:
            return text
        over = "" if buffer.over is None else f" over {self._name(buffer.over)}"
        return f"{text} in slot {buffer.slot}{over}"


def _kernel_name(call: Call, index: int) -> str:
    return re.sub(r"\W|^(?=\d)", "_", f"{call.spec.op_type}_{index}", flags=re.ASCII)


def _one_line(text: str) -> str:
    """The text, with everything escaped that would end a comment or cannot be encoded."""
    return repr(text)[1:-1]


def describe_type(kind: ValueType) -> str:
    """``float[batch, 16]``; ``?`` where nothing is known."""
    if not isinstance(kind, TensorType):
        return str(kind)
    if kind.shape is None:
        return f"{type_name(kind.dtype)}[...]"
    return f"{type_name(kind.dtype)}[{', '.join('?' if dim is None else str(dim) for dim in kind.shape)}]"
