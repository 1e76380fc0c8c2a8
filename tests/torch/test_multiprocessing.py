"""npu tensors between processes: torch.multiprocessing in both directions, DataLoader workers, spawn."""

import pytest

import support

HEAD = """
    import torch, torch_npu
    import torch.multiprocessing as mp
    import multiprocessing_cases as cases

    context = mp.get_context("spawn")
"""

BOTH_WAYS = HEAD + """
    inbox, outbox = context.JoinableQueue(), context.Queue()
    other = context.Process(target=cases.double, args=(inbox, outbox))
    other.start()
    before = torch.npu.memory_allocated()
    for size in (10, 1000, 3 << 20):
        tensor = torch.arange(size, dtype=torch.float32, device="npu")
        expected = torch.arange(size, dtype=torch.float32)
        inbox.put(tensor)
        answer = outbox.get(timeout=120)
        inbox.join()
        assert torch.equal(tensor.cpu(), expected * 2), size
        assert torch.equal(answer.cpu(), expected * 2 + 1), size
        del answer
    inbox.put(None)
    other.join(60)
    assert other.exitcode == 0
    # What was sent is this process's own again; what was received never counted here.
    del tensor
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() == before, (torch.npu.memory_allocated(), before)
    print("both ways")
"""

LOADER = HEAD + """
    loader = torch.utils.data.DataLoader(
        cases.Squares(), batch_size=2, num_workers=2, multiprocessing_context="spawn", collate_fn=cases.as_they_are)
    batches = [batch.cpu() for batch in loader]
    assert [float(batch[1, 999]) for batch in batches] == [1.0, 9.0, 25.0, 49.0]
    print("loaded")
"""

SPAWN = HEAD + """
    results = torch.zeros(3, device="npu")
    mp.spawn(cases.square, args=(results,), nprocs=3)
    assert results.tolist() == [0.0, 1.0, 4.0]
    print("spawned")
"""


@pytest.mark.parametrize("segments", ["False", "True"])
def test_tensors_go_both_ways(segments):
    conf = f"expandable_segments:{segments}"
    result = support.run_script(BOTH_WAYS, fresh=True, PYTORCH_NPU_ALLOC_CONF=conf)
    assert "both ways" in result.stdout


def test_workers_of_a_data_loader_return_tensors():
    assert "loaded" in support.run_script(LOADER, fresh=True).stdout


def test_spawned_processes_write_to_a_shared_tensor():
    assert "spawned" in support.run_script(SPAWN, fresh=True).stdout
