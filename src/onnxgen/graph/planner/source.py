"""Writes plans as Python source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnxgen.graph.ir.types import TensorType, ValueType, type_name
from onnxgen.graph.planner.aliasing import origins
from onnxgen.graph.planner.plan import Form, Plan
from onnxgen.graph.planner.program import Call, Program


def write_plan(program: Program, *, form: Form = Form()) -> Plan:  # noqa: B008 (frozen)
    """Write and compile the function that executes a program.

    Its outputs are never views of inputs, constants or each other.
    """
    writer = _Writer(program, form)
    lines = [*writer.head(), *writer.body()]
    source = "\n".join(lines) + "\n"
    numbers = {number: call for number, line in enumerate(lines, 1) if (call := writer.call_of.get(line))}
    return Plan(program, source, compile(source, f"<plan of {program.name}>.py", "exec"), numbers)


def kernel_names(program: Program) -> list[str]:
    """How the kernels of a program's calls are called in its source."""
    return [f"{call.spec.op_type}_{index}" for index, call in enumerate(program.calls)]


class _Writer:
    def __init__(self, program: Program, form: Form) -> None:
        self.program = program
        self.form = form
        self.kernels = kernel_names(program)
        self.call_of: dict[str, Call] = {}
        self.fresh = copies(program)

    def head(self) -> Iterator[str]:
        yield f'"""Plan of {self.program.name!r}: {len(self.program.calls)} calls."""'
        yield ""
        yield ""
        yield "def make(kernels, constants, fresh, span):"
        yield from _unpack(self.kernels, "kernels")
        yield from _unpack([self.name(value) for value in self.program.constants], "constants")
        yield ""

    def body(self) -> Iterator[str]:
        program = self.program
        yield f"    def plan(run, {''.join(f'{self.name(value)}, ' for value in program.inputs)}):"
        for value in program.inputs:
            yield f"        # {self.name(value)} is {self.describe(value)}"
        dead = dead_after(program)
        for index, call in enumerate(program.calls):
            if self.form.stoppable:
                yield "        run.check()"
            line = f"        {self.call(index, call)}"
            self.call_of[line] = call
            yield line
            if dead[index]:
                yield f"        del {', '.join(map(self.name, dead[index]))}"
        results = "".join(
            f"fresh({self.name(value)}), " if copied else f"{self.name(value)}, "
            for value, copied in zip(program.outputs, self.fresh, strict=True)
        )
        yield f"        return ({results})"
        yield ""
        yield "    return plan"

    def call(self, index: int, call: Call) -> str:
        inputs = ["None" if value is None else self.name(value) for value in call.inputs]
        arguments = ", ".join(["run", *inputs] if call.takes_run else inputs)
        targets = ", ".join(self.name(value) if self.wanted(value) else "_" for value in call.outputs)
        comment = f"{call.spec} on {call.provider} -> {', '.join(self.describe(v) for v in call.outputs)}"
        line = f"{targets} = {self.kernels[index]}({arguments})"
        if self.form.traced:
            line = f"with span(run, {index}, {', '.join(inputs)}) as saw: {line}; saw({targets})"
        return f"{line}  # {_one_line(comment)}"

    def wanted(self, value: int) -> bool:
        return bool(self.program.values[value].name)

    def name(self, value: int) -> str:
        return f"w{value}" if value in self.program.constants else f"v{value}"

    def describe(self, value: int) -> str:
        known = self.program.values[value]
        return f"{known.name or 'nothing'}: {describe_type(known.type)}"


def describe_type(kind: ValueType) -> str:
    """``float[batch, 16]``; ``?`` where nothing is known."""
    if not isinstance(kind, TensorType):
        return str(kind)
    shape = "[...]" if kind.shape is None else str(list(kind.shape)).replace("None", "?").replace("'", "")
    return f"{type_name(kind.dtype)}{shape}"


def copies(program: Program) -> list[bool]:
    """For each output whether it must be copied, because it may be memory of an input, a constant or an earlier output."""
    found = origins(program)
    taken = {*program.inputs, *program.constants}
    result: list[bool] = []
    for output in program.outputs:
        result.append(not taken.isdisjoint(found[output]))
        if not result[-1]:
            taken |= found[output]
    return result


def dead_after(program: Program) -> list[list[int]]:
    """For each call the values that nothing uses after it, in order of their numbers."""
    last: dict[int, int] = {}
    for index, call in enumerate(program.calls):
        for value in (*call.inputs, *call.outputs):
            if value is not None and program.values[value].name:
                last[value] = index
    kept = {*program.constants, *program.outputs}
    dead: list[list[int]] = [[] for _ in program.calls]
    for value in sorted(last):
        if value not in kept:
            dead[last[value]].append(value)
    return dead


def _unpack(names: Iterable[str], source: str) -> Iterator[str]:
    names = list(names)
    for start in range(0, len(names), 8):
        part = names[start : start + 8]
        yield f"    {', '.join(part)}, = {source}[{start}:{start + len(part)}]"


def _one_line(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")
