"""Frames of Python in the stacks of `cairn record --stacks` and `cairn check --stacks`, and of touches of device memory."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

CAIRN = pathlib.Path(os.environ["ASCEND_HOME_PATH"]) / "bin/cairn"

# Lines are counted in the tests.
ALLOCATION = """\
import acl

def größe():
    return 4096

class Memory:
    def take(self):
        return acl.rt.malloc(größe(),
                             0)

def nested(depth):
    if depth == 0:
        return Memory().take()
    return nested(depth - 1)

def generator():
    yield nested(2)

acl.init(), acl.rt.set_device(0)
print(next(generator()))
"""

RACE = """\
import acl, threading
acl.init(), acl.rt.set_device(0)
context = acl.rt.get_context()[0]
stream = acl.rt.create_stream()[0]
memory = acl.rt.malloc(4096, 0)[0]
host = acl.rt.malloc_host(4096)[0]

def write():
    acl.rt.set_context(context)
    assert acl.rt.memset_async(memory, 4096, 1, 4096, stream) == 0

thread = threading.Thread(target=write)
thread.start(), thread.join()

def read():
    assert acl.rt.memcpy(host, 4096, memory, 4096, 2) == 0

read()
acl.rt.synchronize_stream(stream)
"""

TOUCH = """\
import acl, ctypes
acl.init(), acl.rt.set_device(0)
memory = acl.rt.malloc(4096, 0)[0]

def touch():
    {touch}

touch()
"""


def cairn(folder, *arguments, **env):
    command = [str(CAIRN), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=240)
    return done


def script(folder, text, name="script.py"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def check(folder, text, *options):
    """The findings of a script."""
    done = cairn(folder, "check", "--json", "found.json", *options, "--", sys.executable, script(folder, text))
    return done, [one for process in json.loads((folder / "found.json").read_text()) for one in process["findings"]]


def test_a_call_has_the_frames_of_python(tmp_path):
    name = "größe 蟒.py"
    cairn(tmp_path, "record", "--stacks", "-o", "run.cairn", "--", sys.executable, script(tmp_path, ALLOCATION, name)).check_returncode()
    summary = cairn(tmp_path, "summary", "run.cairn").stdout
    assert f"aclrtMalloc from Memory.take ({name}:8)" in summary, summary
    findings = cairn(tmp_path, "check", "--tool=leak", "--json", "found.json", "run.cairn")
    stacks = [place["stack"] for one in json.loads((tmp_path / "found.json").read_text())[0]["findings"] for place in one["places"]]
    frames = next(stack for stack in stacks if "Memory.take" in stack[0])
    lines = [("Memory.take", 8), ("nested", 13), ("nested", 14), ("nested", 14), ("generator", 17), ("<module>", 20)]
    assert frames == [f"{function} ({name}:{line})" for function, line in lines], findings.stderr


def test_both_places_of_a_finding_have_frames_also_of_other_threads_and_of_calls_that_wait(tmp_path):
    done, findings = check(tmp_path, RACE, "--stacks", "--tool=order")
    assert done.returncode == 1 and len(findings) == 1, done.stderr
    write, read = (place["stack"] for place in findings[0]["places"])
    assert write[0] == "write (script.py:10)" and write[1].startswith("Thread.run (threading.py:"), write
    assert read == ["read (script.py:16)", "<module> (script.py:18)"], "the copy runs without the interpreter's lock"
    block = next(fact for fact in findings[0]["facts"] if "the bytes lie in" in fact["text"])
    assert block["stack"] == ["<module> (script.py:5)"]
    assert "        write (script.py:10)\n" in done.stderr


TOUCHES = {
    "a store by ctypes": ("ctypes.memset(memory, 1, 16)", "stores to"),
    "a load by ctypes": ("ctypes.string_at(memory, 16)", "loads from"),
    "a store through a buffer": ("(ctypes.c_char * 16).from_address(memory)[3] = b'x'", "stores to"),
    "a store by numpy": ("import numpy; numpy.frombuffer((ctypes.c_char * 16).from_address(memory), 'u1')[3:] = 1", "stores to"),
    "a load through a view": ("bytes(memoryview((ctypes.c_char * 16).from_address(memory)))", "loads from"),
}


@pytest.mark.parametrize("what", TOUCHES)
@pytest.mark.parametrize("stacks", [[], ["--stacks"]], ids=["plain", "stacks"])
def test_a_touch_of_device_memory_names_the_line(tmp_path, what, stacks):
    touch, verb = TOUCHES[what]
    done, findings = check(tmp_path, TOUCH.format(touch=touch), *stacks)
    assert done.returncode == 1, "the finding decides, not the signal"
    (finding,) = findings
    assert finding["rule"] == "host-touch" and verb in finding["title"], done.stderr
    frames = [frame for frame in finding["places"][0]["stack"] if "script.py" in frame]
    assert frames == ["touch (script.py:6)", "<module> (script.py:8)"], finding
    assert "for: user" in finding["facts"][0]["text"]
    assert finding["facts"][0]["stack"] == (["<module> (script.py:3)"] if stacks else [])


def test_threads_that_the_interpreter_ends_do_no_harm(tmp_path):
    text = """\
import acl, threading
acl.init(), acl.rt.set_device(0)
context, ready, works = acl.rt.get_context()[0], threading.Barrier(5), threading.Event()

def work():
    acl.rt.set_context(context)
    ready.wait()
    while True:
        ptr, ret = acl.rt.malloc(64, 0)
        assert ret == 0 and acl.rt.free(ptr) == 0
        works.set()

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
ready.wait()
works.wait()
for _ in range(200):
    ptr, ret = acl.rt.malloc(64, 0)
    acl.rt.free(ptr)
"""
    for _ in range(3):
        done = cairn(tmp_path, "record", "--stacks", "-o", "run.cairn", "--", sys.executable, script(tmp_path, text))
        assert done.returncode == 0, done.stderr
    assert "aclrtMalloc from work" in cairn(tmp_path, "summary", "run.cairn").stdout
