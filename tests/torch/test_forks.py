"""Scripts share the process that imported torch, and nothing else: see forks.py."""

import subprocess

import pytest

import support

PARENT = "import os; print(os.getppid(), os.environ.get('CAIRN_SOC'))"


def test_scripts_of_all_tests_share_one_import(monkeypatch):
    """pytest writes the name of the test into the environment: that is no setting of the import."""
    before = support.run_script(PARENT).stdout
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another (call)")
    assert support.run_script(PARENT).stdout == before
    parent = before.split()[0]
    assert support.run_script(PARENT, CAIRN_SOC="Ascend910B4").stdout.split() == [parent, "Ascend910B4"]
    assert support.run_script(PARENT, TASK_QUEUE_ENABLE="0").stdout.split()[0] != parent


def test_at_most_servers_kept_processes_are_kept():
    """Each holds hundreds of megabytes."""
    for number in range(support.SERVERS_KEPT + 2):
        support.run_script("", MARK=str(number % 3))
        assert len(support.SERVERS) <= support.SERVERS_KEPT


def test_a_script_ends_as_an_interpreter_does():
    result = support.run_script("import atexit, sys\natexit.register(print, 'last')\nprint(sys.argv[1])\nsys.exit('why')", arguments=["given"], check=False)
    assert (result.returncode, result.stdout, result.stderr) == (1, "given\nlast\n", "why\n")
    assert support.run_script("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", check=False).returncode == -9
    with pytest.raises(subprocess.TimeoutExpired):
        support.run_script("import time; time.sleep(60)", timeout=1)
