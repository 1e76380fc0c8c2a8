"""The module `acl` on our toolkit; `cargo xtask test` starts this inside its environment."""

import os
import sys

import pytest

for name in list(os.environ):
    if name.startswith("CAIRN_") and name not in ("CAIRN_COVERAGE", "CAIRN_TRACE", "CAIRN_CACHE", "CAIRN_TESTS"):
        del os.environ[name]

sys.dont_write_bytecode = True


def pytest_configure():
    if not os.environ.get("ASCEND_HOME_PATH"):
        pytest.exit(
            "ASCEND_HOME_PATH is not set: run `cargo xtask test`, or `cargo xtask toolkit` and "
            "`source target/toolkit/set_env.sh` first",
            returncode=2,
        )


@pytest.fixture(scope="session")
def device():
    import acl

    assert acl.init() == 0
    assert acl.rt.set_device(0) == 0
    yield 0
    assert acl.rt.reset_device(0) == 0
    assert acl.finalize() == 0


@pytest.fixture
def sort(device):
    import acl
    import support

    sort = support.Sort()
    yield sort
    assert acl.rt.synchronize_device() == 0
    sort.close()


@pytest.fixture
def stream(device):
    import acl

    stream, ret = acl.rt.create_stream()
    assert ret == 0
    yield stream
    acl.rt.synchronize_stream(stream)
    acl.rt.destroy_stream(stream)


@pytest.fixture(scope="session")
def models(device, tmp_path_factory):
    """The folder of models."""
    import models

    return models.write(tmp_path_factory.mktemp("models"))


@pytest.fixture
def load(models):
    """Loads models by name, and unloads them after the test."""
    import acl
    from models import Model

    loaded = []

    def load(name):
        loaded.append(Model(models / name))
        return loaded[-1]

    yield load
    assert acl.rt.synchronize_device() == 0
    for model in loaded:
        model.close()


@pytest.fixture
def tensors(device):
    """Makes data sets, and destroys them after the test."""
    import acl
    from models import Tensors

    made = []

    def make(*sizes):
        made.append(Tensors(*sizes))
        return made[-1]

    yield make
    assert acl.rt.synchronize_device() == 0
    for one in made:
        one.close()
