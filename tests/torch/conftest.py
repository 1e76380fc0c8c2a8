"""The unmodified torch and torch_npu wheels on our toolkit; `cargo xtask test` starts this inside its environment."""

import os
import sys

import pytest

import builds
import depth

# Settings of the caller's shell must not decide what is tested, but for recording, the place of the data and
# how much is tested; and those of `cairn check`, under which `cargo xtask deep` runs the tests too.
KEPT = ["CAIRN_COVERAGE", "CAIRN_TRACE", "CAIRN_CACHE", "CAIRN_DATA", "CAIRN_TESTS", "CAIRN_ORT_PYTHON"]
if "CAIRN_RECORD_SESSION" in os.environ:
    KEPT += ["CAIRN_RECORD", "CAIRN_RECORD_SESSION", "CAIRN_RECORD_STACKS", "CAIRN_RECORD_BACKLOG", "CAIRN_MEMORY"]
for name in list(os.environ):
    if name.startswith("CAIRN_") and name not in KEPT:
        del os.environ[name]

sys.dont_write_bytecode = True


def pytest_configure():
    if not os.environ.get("ASCEND_HOME_PATH"):
        pytest.exit(
            "ASCEND_HOME_PATH is not set: run `cargo xtask test`, or `cargo xtask toolkit` and "
            "`source target/toolkit/set_env.sh` first",
            returncode=2,
        )


def pytest_collection_modifyitems(config, items):
    """Without CAIRN_TESTS=deep, every operator in one type and one layout. Tests named on the command line are always run."""
    if depth.DEEP or any("::" in argument for argument in config.args):
        return
    selected = set(depth.once_each(items))
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = [item for item in items if item in selected]


@pytest.fixture(autouse=True)
def settled():
    """Each test starts on device 0 with nothing queued and nothing cached."""
    import torch
    import torch_npu

    yield
    if torch_npu.npu.is_initialized():
        for device in range(torch.npu.device_count()):
            torch.npu.synchronize(device)
        torch.npu.set_device(0)
        torch.npu.empty_cache()


@pytest.fixture(scope="session")
def vendor_example_builds(tmp_path_factory):
    """The C++ example of the vendor's manual page on pluggable allocators, in three builds at a time: see the fixtures below."""
    wheel, toolkit, logs = (tmp_path_factory.mktemp(name) for name in ("vendor_example", "vendor-toolkit", "vendor-logs"))
    source = builds.vendor_example_source()
    started = [
        builds.Build(wheel, source, *builds.wheel_flags()),
        builds.Build(toolkit, source, "-MD", *builds.toolkit_flags(toolkit), *builds.wheel_flags()),
        builds.Build(logs, builds.logging_source(), f"-I{builds.home()}/include", *builds.wheel_flags()),
    ]
    yield started
    for build in started:
        build.wait()


@pytest.fixture(scope="session", autouse=True)
def builds_begin_with_the_first_test(request):
    """Starts the builds early, so that other tests run while the compiler does."""
    if any("vendor_example_builds" in item.fixturenames for item in request.session.items):
        request.getfixturevalue("vendor_example_builds")


@pytest.fixture(scope="session")
def vendor_example(vendor_example_builds):
    """The library of the example on the headers of the wheel."""
    return vendor_example_builds[0].library()


@pytest.fixture(scope="session")
def vendor_example_on_toolkit(vendor_example_builds):
    """The library of the example on the headers of the toolkit."""
    return vendor_example_builds[1].library()


@pytest.fixture(scope="session")
def vendor_example_with_logs(vendor_example_builds):
    """The library of the example with its log lines; it mixes ACL headers of the toolkit and of the wheel."""
    return vendor_example_builds[2].library()


@pytest.fixture(scope="session")
def recorder(tmp_path_factory):
    """recorder.cpp, compiled; see journal.py."""
    folder = tmp_path_factory.mktemp("recorder")
    return builds.Build(folder, builds.HERE / "recorder.cpp", "-O1", "-Wall", "-Werror", name="recorder.so").library().path


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    """A session of the graph engine; see graphs.py."""
    import graphs

    session = graphs.Engine(graphs.build(tmp_path_factory.mktemp("ge_door")).library().path)
    yield session
    session.close()


@pytest.fixture(scope="session")
def cairn():
    """libcairn_pool.so."""
    return builds.cairn()


@pytest.fixture(scope="session", params=["vendor_example", "cairn"])
def library(request):
    """Each allocator that has to serve torch."""
    return request.getfixturevalue(request.param)
