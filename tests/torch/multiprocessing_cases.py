"""What other processes of test_multiprocessing.py run: they import it by name."""

import torch
import torch_npu


def double(inbox, outbox):
    """Doubles every tensor that comes, in place, and sends a new one back."""
    while (tensor := inbox.get()) is not None:
        tensor *= 2
        answer = tensor + 1
        torch.npu.synchronize()
        outbox.put(answer)
        inbox.task_done()
        del tensor, answer


def square(rank, results):
    """For torch.multiprocessing.spawn."""
    torch.npu.set_device(0)
    results[rank] = rank * rank
    torch.npu.synchronize()


class Squares(torch.utils.data.Dataset):
    """Items that are npu tensors, made in a worker."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((1000,), float(index), device="npu") ** 2


def as_they_are(items):
    return torch.stack(items)
