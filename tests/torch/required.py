"""Finds out which aclnn functions the calls of calls.py reach in torch_npu, and writes required.txt.

    python required.py [--check]      in the environment of the tests; --check only compares

torch_npu asks for operators in the library of custom operators first. Such a library is made here that has every name which
torch_npu knows; each of its functions records its name and jumps to the toolkit's function, or returns 0 where there is none.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
LIST = HERE / "required.txt"

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

extern const char* const names[];
extern const int count;
void* targets[COUNT];
static unsigned char seen[COUNT];

__attribute__((used)) void record(long index) { seen[index] = 1; }

__attribute__((constructor)) static void find(void)
{
    void* library = dlopen("libascendcl.so", RTLD_NOW | RTLD_GLOBAL);
    for (int i = 0; i < COUNT; ++i) targets[i] = library ? dlsym(library, names[i]) : 0;
}

__attribute__((destructor)) static void report(void)
{
    FILE* out = fopen(getenv("REQUIRED_OUT"), "a");
    for (int i = 0; out && i < COUNT; ++i)
        if (seen[i]) fprintf(out, "%s %d\n", names[i], targets[i] != 0);
    if (out) fclose(out);
}
"""

# Saves every register that carries an argument while the name is recorded.
STUB = r"""
.globl {name}
.type {name}, @function
{name}:
    push %rbp; mov %rsp, %rbp; and $-16, %rsp
    sub $192, %rsp
    movups %xmm0, 0(%rsp); movups %xmm1, 16(%rsp); movups %xmm2, 32(%rsp); movups %xmm3, 48(%rsp)
    movups %xmm4, 64(%rsp); movups %xmm5, 80(%rsp); movups %xmm6, 96(%rsp); movups %xmm7, 112(%rsp)
    mov %rdi, 128(%rsp); mov %rsi, 136(%rsp); mov %rdx, 144(%rsp); mov %rcx, 152(%rsp); mov %r8, 160(%rsp); mov %r9, 168(%rsp)
    mov ${index}, %rdi
    call record@PLT
    movups 0(%rsp), %xmm0; movups 16(%rsp), %xmm1; movups 32(%rsp), %xmm2; movups 48(%rsp), %xmm3
    movups 64(%rsp), %xmm4; movups 80(%rsp), %xmm5; movups 96(%rsp), %xmm6; movups 112(%rsp), %xmm7
    mov 128(%rsp), %rdi; mov 136(%rsp), %rsi; mov 144(%rsp), %rdx; mov 152(%rsp), %rcx; mov 160(%rsp), %r8; mov 168(%rsp), %r9
    leave
    mov targets@GOTPCREL(%rip), %r11
    mov {offset}(%r11), %r11
    test %r11, %r11
    jz absent
    jmp *%r11
"""


def known_names():
    """Every name of an operator in torch_npu's library that has both of its functions."""
    import torch_npu

    library = pathlib.Path(torch_npu.__file__).parent / "lib" / "libtorch_npu.so"
    words = set(re.findall(rb"aclnn[A-Z][A-Za-z0-9]+", library.read_bytes()))
    words = {word.decode() for word in words}
    return sorted(word for word in words if word + "GetWorkspaceSize" in words)


def tracer(folder):
    """The library of custom operators, below `folder`."""
    names = [name + suffix for name in known_names() for suffix in ("GetWorkspaceSize", "")]
    library_dir = folder / "op_api" / "lib"
    library_dir.mkdir(parents=True)
    table = "const char* const names[] = {" + ",".join(f'"{name}"' for name in names) + "};\n"
    (folder / "record.c").write_text(f"#define COUNT {len(names)}\n{SOURCE}{table}")
    stubs = "".join(STUB.format(name=name, index=index, offset=8 * index) for index, name in enumerate(names))
    (folder / "stubs.s").write_text(".text\nabsent: xor %eax, %eax; ret\n" + stubs + '.section .note.GNU-stack,"",@progbits\n')
    command = ["gcc", "-shared", "-fPIC", "-w", "-o", library_dir / "libcust_opapi.so", folder / "record.c", folder / "stubs.s", "-ldl"]
    subprocess.run(command, check=True)


def trace():
    """The names that were reached, and those of them that the toolkit lacks."""
    reached, absent_names = set(), set()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tracer(folder)
        out = folder / "out"
        code = "import sys, torch, torch_npu, calls\n" \
            "for part in calls.ALL:\n" \
            "    part('npu')\n" \
            "torch.npu.synchronize()\n"
        env = os.environ | {"ASCEND_CUSTOM_OPP_PATH": str(folder), "REQUIRED_OUT": str(out), "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"}
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=600)
        if run.returncode != 0:
            raise SystemExit(run.stdout + run.stderr)
        for line in out.read_text().splitlines():
            name, is_present = line.split()
            name = name.removesuffix("GetWorkspaceSize")
            reached.add(name)
            if is_present == "0":
                absent_names.add(name)
    return reached, absent_names


def main():
    reached, absent_names = trace()
    listed = set(LIST.read_text().split()) if LIST.exists() else set()
    if "--check" in sys.argv:
        added, removed = sorted(reached - listed), sorted(listed - reached)
        print(f"{len(reached)} reached; not listed: {added}; listed and not reached: {removed}; absent from the toolkit: {sorted(absent_names)}")
        raise SystemExit(bool(added or removed or absent_names))
    LIST.write_text("".join(f"{name}\n" for name in sorted(reached)))
    print(f"{len(reached)} names; absent from the toolkit: {sorted(absent_names)}")


if __name__ == "__main__":
    main()
