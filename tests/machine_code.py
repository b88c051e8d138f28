"""Small object files for tests of the linker, made by LLVM for any processor."""

from __future__ import annotations

from llvmlite import binding

CALLS_AND_CONSTANTS = """
@table = private unnamed_addr constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@outside_word = external global i64

define i64 @looked_up(i64 %i) noinline {
  %place = getelementptr [4 x i64], [4 x i64]* @table, i64 0, i64 %i
  %value = load i64, i64* %place
  ret i64 %value
}

define double @scaled(double %x) {
  %y = fmul double %x, 0x400921FB54442D18
  ret double %y
}

define i64 @sum(i64 %i, i64 %j) {
  %a = call i64 @looked_up(i64 %i)
  %b = call i64 @looked_up(i64 %j)
  %s = add i64 %a, %b
  ret i64 %s
}
"""
"""Functions that call each other, a table, and a float constant."""

LIBRARY_CALLS = """
declare void @llvm.memset.p0i8.i64(i8*, i8, i64, i1)
declare void @llvm.memcpy.p0i8.p0i8.i64(i8*, i8*, i64, i1)
declare void @llvm.memmove.p0i8.p0i8.i64(i8*, i8*, i64, i1)

define void @fill(i8* %to, i64 %n) {
  call void @llvm.memset.p0i8.i64(i8* %to, i8 7, i64 %n, i1 false)
  ret void
}
define void @copy(i8* %to, i8* %from, i64 %n) {
  call void @llvm.memcpy.p0i8.p0i8.i64(i8* %to, i8* %from, i64 %n, i1 false)
  ret void
}
define void @move(i8* %to, i8* %from, i64 %n) {
  call void @llvm.memmove.p0i8.p0i8.i64(i8* %to, i8* %from, i64 %n, i1 false)
  ret void
}
"""
"""What becomes calls of the C library."""

SWITCH = """
define i64 @named(i64 %i) {
  switch i64 %i, label %other [i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e]
a:
  ret i64 17
b:
  ret i64 4
c:
  ret i64 99
d:
  ret i64 -3
e:
  ret i64 1234567
other:
  ret i64 0
}

@both = private unnamed_addr constant [2 x i64 (i64)*] [i64 (i64)* @named, i64 (i64)* @twice]

define i64 @twice(i64 %i) noinline {
  %j = add i64 %i, %i
  ret i64 %j
}

define i64 @chosen(i64 %which, i64 %i) {
  %place = getelementptr [2 x i64 (i64)*], [2 x i64 (i64)*]* @both, i64 0, i64 %which
  %function = load i64 (i64)*, i64 (i64)** %place
  %value = call i64 %function(i64 %i)
  ret i64 %value
}
"""
"""A jump table, and a table of addresses: constants that are themselves relocated."""

OUTSIDE = """
declare i64 @nobody_has_this(i64)
define i64 @lost(i64 %i) {
  %v = call i64 @nobody_has_this(i64 %i)
  ret i64 %v
}
"""

WRITABLE = """
@counter = internal global i64 5
define i64 @next() {
  %old = load i64, i64* @counter
  %new = add i64 %old, 1
  store i64 %new, i64* @counter
  ret i64 %old
}
"""


def object_file(
    text: str, *, triple: str | None = None, reloc: str = "pic", model: str = "small", features: str = ""
) -> bytes:
    """The object file of a module of LLVM's language; None for this process's processor."""
    triple = triple or binding.get_process_triple()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(triple)
    machine = target.create_target_machine(opt=2, reloc=reloc, codemodel=model, features=features)
    module = binding.parse_assembly(f'target triple = "{triple}"\n{text}')
    module.verify()
    return machine.emit_object(module)
