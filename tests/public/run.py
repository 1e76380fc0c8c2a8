"""Compiles and runs the vendor's public example programs of aclnn functions, and checks the numbers that they compute.

    CAIRN_EXAMPLES=FOLDER CAIRN_TOOLKIT=TOOLKIT python run.py OUT [--only PATTERN] [--again]

FOLDER holds checkouts of the public repositories of operators; nothing of them is part of this one. Every program gets OUT/NAME
with its source, the compiler's messages, its output and its calls; OUT/results.jsonl has a line for each.

A program passes when every call was planned and ran, and no output differs from PyTorch's. Those that call a function which
Cairn does not have are skipped. Those that known.txt names may fail, for the reason it has. Without FOLDER all is skipped.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import recorder
from sources import collect

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = 60
STANDARD = """algorithm array cassert chrono cmath complex cstdint cstdio cstdlib cstring fstream functional iomanip iostream limits map
memory numeric random sstream string thread unordered_map vector""".split()
# Errors of frees and destructions: some programs do them twice, or after the device was reset, when their calls have run.
IGNORED_ERRORS = re.compile(r"\b(aclrtFree|aclrtDestroy\w+|aclDestroy\w+|aclrtReset\w+|aclFinalize): ")


def compiled_header(out):
    """The standard headers, compiled once: most of a program's compilation is reading them."""
    header, text = out / "standard.h", "".join(f"#include <{name}>\n" for name in STANDARD)
    if not header.exists() or header.read_text() != text:
        header.write_text(text)
        subprocess.run(["g++", "-std=c++17", "-O0", "-w", "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    return header


def recording_library(out, toolkit, signatures):
    written, text, library = out / "recorder.cc", recorder.source(signatures), out / "librecorder.so"
    if not library.exists() or written.read_text() != text:
        written.write_text(text)
        flags = ["-std=c++17", "-O0", "-w", "-shared", "-fPIC", f"-I{toolkit}/include"]
        subprocess.run(["g++", *flags, written, "-o", library, f"-L{toolkit}/lib64", "-lascendcl", "-ldl"], check=True)
    return library


def compile_program(program, folder, toolkit, header):
    """The compiler's errors; none when there is a program."""
    source = folder / "program.cpp"
    source.write_text(program.text)
    command = ["g++", "-std=c++17", "-O0", "-w", "-include", header, f"-I{toolkit}/include", f"-I{toolkit}/include/aclnnop", f"-I{program.folder}", source, "-o", folder / "program"]
    command += [f"-L{toolkit}/lib64", f"-Wl,-rpath,{toolkit}/lib64", "-lascendcl", "-lopapi", "-lnnopbase", "-lpthread"]
    process = subprocess.run(command, capture_output=True, text=True, errors="replace")
    (folder / "compile.txt").write_text(process.stderr)
    if process.returncode == 0:
        return []
    return [line for line in process.stderr.splitlines() if "error" in line or "undefined" in line][:3] or ["the compiler failed"]


def run_program(folder, library):
    """Its exit code, or `timeout`, and what it printed, the log's errors among it."""
    environment = os.environ | {"LD_PRELOAD": str(library), "CAIRN_EXAMPLE_CALLS": str(folder / "calls.jsonl")}
    environment |= {"ASCEND_SLOG_PRINT_TO_STDOUT": "1", "ASCEND_GLOBAL_LOG_LEVEL": "3"}
    try:
        process = subprocess.run([folder / "program"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, env=environment, cwd=folder, stdin=subprocess.DEVNULL)
        code, text = process.returncode, process.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as error:
        code, text = "timeout", (error.stdout or b"").decode(errors="replace")
    (folder / "stdout.txt").write_text(text)
    return code, text


def outcome(code, text, calls):
    """`ran` when every call was planned and ran, else why not; and the errors of the log."""
    errors = [re.sub(r"^\[ERROR\].*?\]\d+ ", "", line) for line in text.splitlines() if "[ERROR]" in line]
    serious = [line for line in errors if not IGNORED_ERRORS.search(line)]
    if code == "timeout":
        return "timeout", errors
    if code < 0:
        return "crash", errors
    if any(call["code"] for call in calls):
        return "refused", errors
    if not any(call["event"] == "ran" for call in calls):
        return "nothing ran", errors
    return ("error" if serious else "ran"), errors


def known_faults():
    lines = (HERE / "known.txt").read_text().splitlines()
    return dict(map(str.strip, line.split(";", 1)) for line in lines if line and not line.startswith("#"))


class Runner:
    """Compiles, runs and checks one program after the other."""

    def __init__(self, out, toolkit, again):
        import check  # needs torch

        self.check, self.out, self.toolkit, self.again = check, out, toolkit, again
        self.signatures = recorder.signatures(ROOT / "crates/ascendcl/aclnn.txt")
        self.header, self.library = compiled_header(out), recording_library(out, toolkit, self.signatures)
        self.rows, headers_link = check.reference_table(), out / "op_api"
        headers_link.unlink(missing_ok=True)
        headers_link.symlink_to(toolkit / "include/aclnnop")  # Some programs find their operator's header beside them.

    def result(self, program):
        """The result of a program: its `outcome`, with `errors`, or `differs`, or functions that are `absent`."""
        row = {"name": program.name, "place": program.place, "functions": program.functions}
        absent = [name for name in program.functions if name not in self.signatures]
        if absent:
            return row | {"outcome": "absent", "absent": absent}
        folder = self.out / program.name
        folder.mkdir(exist_ok=True)
        (folder / "calls.jsonl").unlink(missing_ok=True)
        if not self.again or not (folder / "program").exists():
            errors = compile_program(program, folder, self.toolkit, self.header)
            if errors:
                return row | {"outcome": "does not compile", "errors": errors}
        code, text = run_program(folder, self.library)
        calls = self.check.calls_of(folder)
        kind, errors = outcome(code, text, calls)
        checked = self.check.check_program(calls, self.signatures, self.rows)
        differs = [f"{function}: {result}" for function, result in checked if result not in ("verified", "no reference")]
        without = sorted({function for function, result in checked if result == "no reference"})
        if kind == "ran":
            kind = "differs" if differs else "without reference" if without else "verified"
        return row | {"outcome": kind, "exit": code, "errors": errors[:4], "differs": differs, "without": without}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="programs whose names match")
    parser.add_argument("--again", action="store_true", help="use the programs that are compiled")
    options = parser.parse_args()
    sources, started = os.environ.get("CAIRN_EXAMPLES"), time.monotonic()
    if not sources or not Path(sources).is_dir():
        print("CAIRN_EXAMPLES names no folder with the vendor's public repositories")
        print("1 skipped in 0.00s")
        return
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    runner, known = Runner(out, Path(os.environ["CAIRN_TOOLKIT"]).resolve(), options.again), known_faults()
    kinds, counts = Counter(), Counter()
    with open(out / "results.jsonl", "w") as results:
        for program in collect(sources):
            if not re.search(options.only, program.name):
                continue
            row = runner.result(program)
            kind, is_good = row["outcome"], row["outcome"] in ("verified", "without reference")
            kinds[kind if is_good or kind == "absent" or program.name not in known else f"{kind}, known"] += 1
            counts["passed" if is_good else "skipped" if kind == "absent" or program.name in known else "failed"] += 1
            if is_good and program.name in known:
                print(f"{program.name}: known.txt says that it does not run: {known[program.name]}")
            elif not is_good and kind != "absent" and program.name not in known:
                print(f"{program.name}: {kind}: {(row.get('differs') or row['errors'] or [row.get('exit')])[0]}", flush=True)
            results.write(json.dumps(row) + "\n")
            results.flush()
    print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    print(f"{counts['failed']} failed, {counts['passed']} passed, {counts['skipped']} skipped in {time.monotonic() - started:.2f}s")
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
