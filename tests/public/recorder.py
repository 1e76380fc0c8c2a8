"""Writes a library between a program and Cairn that records each aclnn call: arguments before, tensors after.

It is loaded with LD_PRELOAD and writes one line of JSON for each call to the file `CAIRN_EXAMPLE_CALLS` names. The signatures
are those of crates/ascendcl/aclnn.txt.
"""

import re
from pathlib import Path

HEAD = (Path(__file__).parent / "recorder.h").read_text()


def signatures(path):
    """Each function with the types and names of its arguments."""
    functions = {}
    for line in path.read_text().splitlines():
        if line.startswith("#") or line.count(";") < 2:
            continue
        _, name, arguments = (part.strip() for part in line.split(";", 2))
        functions[name] = [re.fullmatch(r"(.*?[\s*])(\w+)", one.strip()).groups() for one in arguments.split(",") if one.strip()]
    return functions


def source(functions):
    """The library's text."""
    parts = [HEAD]
    for name, arguments in functions.items():
        parameters = "".join(f"{kind}a{i}, " for i, (kind, _) in enumerate(arguments))
        kinds = "".join(f"{kind}, " for kind, _ in arguments)
        passed = "".join(f"a{i}, " for i in range(len(arguments)))
        arguments_only = passed.rstrip(", ")
        remembered = f"*executor{', ' if arguments_only else ''}{arguments_only}"
        parts.append(f"""
int {name}GetWorkspaceSize({parameters}uint64_t *size, aclOpExecutor **executor)
{{
    std::string text = show_all({arguments_only});
    int code = next<int (*)({kinds}uint64_t *, aclOpExecutor **)>("{name}GetWorkspaceSize")({passed}size, executor);
    record("{name}", "planned", code, text);
    if (!code) remember({remembered});
    return code;
}}
int {name}(void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream)
{{
    int code = next<int (*)(void *, uint64_t, aclOpExecutor *, aclrtStream)>("{name}")(workspace, size, executor, stream);
    return finish("{name}", code, executor, stream);
}}""")
    return "\n".join(parts) + "\n}\n"
