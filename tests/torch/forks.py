"""Scripts in processes of their own without the seconds that an import of torch takes: one process imports it, touches no device, and forks for each.

    server = Server(environment)
    result = server.run(code, arguments, environment, timeout)      as subprocess.run gives it

The fork gets its own environment, arguments, standard output and standard error, runs the code as its main program and ends
as any interpreter does. What the loader or Python itself reads when a process starts cannot be changed this way.
"""

import atexit
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile


class Server:
    """The process that forks. Started by the first script, ended with the interpreter."""

    def __init__(self, environment):
        # Answers have a pipe of their own: with some settings the libraries print on the standard output while they load.
        read_end, write_end = os.pipe()
        command = [sys.executable, __file__, str(write_end)]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[write_end], text=True
        )
        os.close(write_end)
        self.answers = open(read_end)
        atexit.register(self.close)

    def close(self):
        atexit.unregister(self.close)
        self.process.stdin.close()
        self.process.wait()
        self.answers.close()

    def answer(self):
        line = self.answers.readline()
        assert line, f"the process that forks ended with {self.process.wait()}"
        return json.loads(line)

    def run(self, code, arguments, environment, timeout):
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join(folder, name) for name in ("stdout", "stderr")]
            request = {"code": code, "arguments": list(arguments), "environment": environment, "files": names, "timeout": timeout}
            print(json.dumps(request), file=self.process.stdin, flush=True)
            status = self.answer()
            out, err = (pathlib.Path(name).read_text(errors="replace") for name in names)
        if status is None:
            raise subprocess.TimeoutExpired("a forked script", timeout, out, err)
        return subprocess.CompletedProcess(["fork", *arguments], status, out, err)


def wait(pid, timeout):
    """The exit status of a child as `subprocess` counts it; None when it was killed because it took too long."""

    def kill(*_):
        os.kill(pid, signal.SIGKILL)
        nonlocal timed_out
        timed_out = True

    timed_out = False
    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return None if timed_out else status


def become(request):
    """Makes this fork what a new interpreter with these settings would be."""
    for number, name in enumerate(request["files"], 1):
        file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]


def serve(answers):
    """Forks for each line of the standard input and answers with its status; returns in each fork, with the code to run."""
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            answers.close()
            become(request)
            return request["code"]
        print(json.dumps(wait(pid, request["timeout"])), file=answers, flush=True)
    raise SystemExit


if __name__ == "__main__":
    import torch  # noqa: F401
    import torch_npu  # noqa: F401

    exec(compile(serve(open(int(sys.argv[1]), "w")), "<script>", "exec"), {"__name__": "__main__"})
