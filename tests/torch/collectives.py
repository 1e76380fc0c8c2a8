"""Every collective of torch.distributed, each against what plain arithmetic gives: `check_all(rank, backend)` runs them all on the ranks of one group.

Inputs are small integers, other ones on each rank, so that results are exact in every type.
"""

import traceback

import torch
from torch import distributed as dist
from torch.distributed import ReduceOp, _functional_collectives as functional
from torch.distributed.distributed_c10d import _coalescing_manager

HCCL_ONLY, DEEP = "hccl only", "deep"
CASES = {}

REDUCED = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.int64, torch.uint8]
MOVED = [*REDUCED, torch.bool, torch.int16, torch.float64]


def case(*marks, name=None):
    """Registers a check; it gets its `ranks.Rank`."""

    def register(check):
        CASES[name or check.__name__.replace("_", " ")] = (check, marks)
        return check

    return register


def selected(backend, deep):
    """The names of the cases that a backend can run."""
    left_out = {HCCL_ONLY} if backend != "hccl" else set()
    left_out |= set() if deep else {DEEP}
    return [name for name, (_, marks) in CASES.items() if not left_out & set(marks)]


def check_all(here, backend, deep):
    """What went wrong in each case, or None. Every rank runs the same cases in the same order."""
    outcomes = {}
    with here.group(backend):
        for name in selected(backend, deep):
            try:
                CASES[name][0](here)
                here.synchronize()
                outcomes[name] = None
            except Exception:
                outcomes[name] = traceback.format_exc()
                print(name, outcomes[name], flush=True)
    return outcomes


def numbers(rank, *sizes, dtype=torch.float32):
    """What a rank starts with: numbers from 1 to 3 (truth values: some of each)."""
    count = torch.Size(sizes).numel()
    values = (torch.arange(count) * (rank + 2) + rank) % 3 + 1
    return (values > 1 if dtype == torch.bool else values.to(dtype)).reshape(sizes)


def mine(here, *sizes, dtype=torch.float32):
    return numbers(here.rank, *sizes, dtype=dtype).to(here.device)


def everyone(here, *sizes, dtype=torch.float32):
    """What each rank starts with, on the CPU."""
    return [numbers(rank, *sizes, dtype=dtype) for rank in range(here.world)]


def equal(actual, expected):
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0)


def reduced(parts, op):
    """A plain reduction, in rank order."""
    if op in (ReduceOp.SUM, ReduceOp.AVG):
        total = sum(parts[1:], parts[0].clone())
        return total / len(parts) if op == ReduceOp.AVG else total
    combine = {ReduceOp.PRODUCT: torch.mul, ReduceOp.MAX: torch.maximum, ReduceOp.MIN: torch.minimum}[op]
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return result


def type_name(dtype):
    return str(dtype).removeprefix("torch.")


OPERATIONS = {"sum": ReduceOp.SUM, "product": ReduceOp.PRODUCT, "max": ReduceOp.MAX, "min": ReduceOp.MIN}


def all_reduce_check(op, dtype):
    def check(here):
        for count in (1, 7, 4099):
            tensor = mine(here, count, dtype=dtype)
            dist.all_reduce(tensor, op)
            equal(tensor, reduced(everyone(here, count, dtype=dtype), op))

    return check


for op_name, op in OPERATIONS.items():
    for dtype in REDUCED:
        # The NPUs that Cairn is have no product of bfloat16.
        if op_name != "product" or dtype != torch.bfloat16:
            case(name=f"all reduce {op_name} {type_name(dtype)}")(all_reduce_check(op, dtype))
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    case(HCCL_ONLY, name=f"all reduce average {type_name(dtype)}")(all_reduce_check(ReduceOp.AVG, dtype))


@case()
def all_reduce_of_truth_values(here):
    tensor = mine(here, 37, dtype=torch.bool)
    dist.all_reduce(tensor, ReduceOp.MAX)
    equal(tensor, torch.stack(everyone(here, 37, dtype=torch.bool)).any(0))


@case(HCCL_ONLY)
def all_reduce_of_products_with_a_factor(here):
    from torch_npu.distributed import _make_hccl_premul_sum

    tensor = mine(here, 50)
    dist.all_reduce(tensor, _make_hccl_premul_sum(0.5))
    equal(tensor, sum(everyone(here, 50)) * 0.5)


@case()
def all_reduce_of_nothing(here):
    tensor = torch.empty(0, device=here.device)
    dist.all_reduce(tensor)
    assert tensor.shape == (0,)


@case()
def all_reduce_of_megabytes(here):
    count = 3 * (1 << 20) // 4 + 5
    tensor = mine(here, count)
    dist.all_reduce(tensor)
    equal(tensor, reduced(everyone(here, count), ReduceOp.SUM))


@case(DEEP)
def all_reduce_of_more_than_a_staging_buffer(here):
    count = (100 << 20) + 3
    tensor = torch.full((count,), float(here.rank + 1), device=here.device)
    dist.all_reduce(tensor)
    assert (tensor == sum(range(1, here.world + 1))).all()


@case()
def all_reduces_in_flight(here):
    tensors = [mine(here, 100 + number) for number in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for number, tensor in enumerate(tensors):
        equal(tensor, reduced(everyone(here, 100 + number), ReduceOp.SUM))


@case()
def all_reduce_between_operators(here):
    """The operators before it are seen, those after it see its result."""
    tensor = mine(here, 1000)
    expected = everyone(here, 1000)
    for _ in range(10):
        tensor = tensor * 2
        dist.all_reduce(tensor)
        tensor = tensor / (2 * here.world)
        expected = [sum(expected) / here.world] * here.world
    torch.testing.assert_close(tensor.cpu(), expected[0])


@case(HCCL_ONLY)
def all_reduce_on_another_stream(here):
    stream = torch.npu.Stream()
    tensor = mine(here, 5000)
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        tensor *= 2
        dist.all_reduce(tensor)
        tensor += 1
    torch.npu.current_stream().wait_stream(stream)
    equal(tensor, 2 * sum(everyone(here, 5000)) + 1)


@case()
def all_reduce_coalesced(here):
    tensors = [mine(here, 3 + number) for number in range(4)]
    if here.device.type == "npu":
        with _coalescing_manager(device=here.device):
            for tensor in tensors:
                dist.all_reduce(tensor)
    else:
        dist.all_reduce_coalesced(tensors)
    for number, tensor in enumerate(tensors):
        equal(tensor, sum(everyone(here, 3 + number)))


@case(HCCL_ONLY)
def all_gather_into_tensor_coalesced(here):
    outputs = [torch.empty(here.world * size, device=here.device) for size in (4, 9)]
    with _coalescing_manager(device=here.device, async_ops=True) as manager:
        for output in outputs:
            dist.all_gather_into_tensor(output, mine(here, output.numel() // here.world))
    manager.wait()
    for output in outputs:
        equal(output, torch.cat(everyone(here, output.numel() // here.world)))


@case(HCCL_ONLY)
def reduce_scatter_tensor_coalesced(here):
    outputs = [torch.empty(size, device=here.device) for size in (4, 9)]
    with _coalescing_manager(device=here.device, async_ops=True) as manager:
        for output in outputs:
            dist.reduce_scatter_tensor(output, mine(here, output.numel() * here.world))
    manager.wait()
    for output in outputs:
        equal(output, sum(everyone(here, output.numel() * here.world)).chunk(here.world)[here.rank])


@case(HCCL_ONLY)
def an_operation_that_hccl_lacks_is_an_error(here):
    try:
        dist.all_reduce(mine(here, 5, dtype=torch.int32), ReduceOp.BAND)
    except (RuntimeError, ValueError) as error:
        assert "BAND" in str(error) or "support" in str(error), error
    else:
        raise AssertionError("HCCL has no bitwise and")


@case()
def reduce_to_each_rank(here):
    for root in range(here.world):
        for dtype in (torch.float32, torch.int64):
            tensor = mine(here, 123, dtype=dtype)
            dist.reduce(tensor, root)
            if here.rank == root:
                equal(tensor, sum(everyone(here, 123, dtype=dtype)))


def broadcast_check(dtype):
    def check(here):
        for root in range(here.world):
            tensor = mine(here, 3, 41, dtype=dtype)
            dist.broadcast(tensor, root)
            equal(tensor, numbers(root, 3, 41, dtype=dtype))

    return check


for dtype in MOVED:
    case(*[HCCL_ONLY] * (dtype == torch.int16), name=f"broadcast {type_name(dtype)}")(broadcast_check(dtype))


@case()
def all_gather(here):
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
        tensors = [torch.zeros(5, 7, dtype=dtype, device=here.device) for _ in range(here.world)]
        dist.all_gather(tensors, mine(here, 5, 7, dtype=dtype))
        for actual, expected in zip(tensors, everyone(here, 5, 7, dtype=dtype)):
            equal(actual, expected)


@case(HCCL_ONLY)
def all_gather_of_uneven_tensors(here):
    tensors = [torch.zeros(3 + 2 * rank, device=here.device) for rank in range(here.world)]
    dist.all_gather(tensors, mine(here, 3 + 2 * here.rank))
    for rank, tensor in enumerate(tensors):
        equal(tensor, numbers(rank, 3 + 2 * rank))


@case()
def all_gather_into_tensor(here):
    flat = torch.zeros(here.world * 6, 4, device=here.device)
    dist.all_gather_into_tensor(flat, mine(here, 6, 4))
    equal(flat, torch.cat(everyone(here, 6, 4)))


@case(HCCL_ONLY)
def all_gather_into_tensor_stacked(here):
    stacked = torch.zeros(here.world, 6, 4, device=here.device)
    dist.all_gather_into_tensor(stacked, mine(here, 6, 4))
    equal(stacked, torch.stack(everyone(here, 6, 4)))


@case()
def all_gather_into_tensor_in_place(here):
    output = torch.zeros(here.world * 33, device=here.device)
    part = output.narrow(0, here.rank * 33, 33)
    part.copy_(mine(here, 33))
    dist.all_gather_into_tensor(output, part)
    equal(output, torch.cat(everyone(here, 33)))


@case(HCCL_ONLY)
def all_gather_into_tensor_uneven(here):
    from torch_npu.distributed import all_gather_into_tensor_uneven as gather

    sizes = [rank + 2 for rank in range(here.world)]
    output = torch.zeros(sum(sizes), device=here.device)
    gather(output, mine(here, sizes[here.rank]), output_split_sizes=sizes)
    equal(output, torch.cat([numbers(rank, size) for rank, size in enumerate(sizes)]))


@case(HCCL_ONLY)
def reduce_scatter(here):
    for op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.AVG):
        output = torch.empty(11, device=here.device)
        dist.reduce_scatter(output, [mine(here, here.world, 11)[rank].contiguous() for rank in range(here.world)], op)
        equal(output, reduced(everyone(here, here.world, 11), op)[here.rank])


@case(HCCL_ONLY)
def reduce_scatter_of_uneven_tensors(here):
    inputs = [mine(here, 2 + rank) for rank in range(here.world)]
    output = torch.empty(2 + here.rank, device=here.device)
    dist.reduce_scatter(output, inputs)
    equal(output, sum(everyone(here, 2 + here.rank)))


@case()
def reduce_scatter_tensor(here):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32):
        output = torch.empty(6, 5, dtype=dtype, device=here.device)
        dist.reduce_scatter_tensor(output, mine(here, here.world * 6, 5, dtype=dtype))
        equal(output, sum(everyone(here, here.world * 6, 5, dtype=dtype)).chunk(here.world)[here.rank])


@case(HCCL_ONLY)
def reduce_scatter_tensor_in_place(here):
    tensor = mine(here, here.world * 19)
    output = tensor.narrow(0, here.rank * 19, 19)
    dist.reduce_scatter_tensor(output, tensor)
    equal(output, sum(everyone(here, here.world * 19)).chunk(here.world)[here.rank])


@case(HCCL_ONLY)
def reduce_scatter_tensor_uneven(here):
    from torch_npu.distributed import reduce_scatter_tensor_uneven as scatter

    sizes = [2 * rank + 1 for rank in range(here.world)]
    output = torch.empty(sizes[here.rank], device=here.device)
    scatter(output, mine(here, sum(sizes)), input_split_sizes=sizes)
    equal(output, sum(everyone(here, sum(sizes))).split(sizes)[here.rank])


@case()
def all_to_all_single(here):
    for dtype in (torch.float32, torch.int64, torch.bfloat16):
        output = torch.empty(here.world * 3, 2, dtype=dtype, device=here.device)
        dist.all_to_all_single(output, mine(here, here.world * 3, 2, dtype=dtype))
        equal(output, torch.cat([part.chunk(here.world)[here.rank] for part in everyone(here, here.world * 3, 2, dtype=dtype)]))


def split_sizes(here):
    """How many rows each rank sends to each: also none."""
    return [[(2 * source + target) % 3 for target in range(here.world)] for source in range(here.world)]


def exchanged(here, sizes, width):
    """What this rank receives when every rank sends its rows by these sizes."""
    parts = [numbers(source, sum(row), width).split(row)[here.rank] for source, row in enumerate(sizes)]
    return torch.cat(parts)


@case()
def all_to_all_single_with_uneven_splits(here):
    sizes = split_sizes(here)
    received = [row[here.rank] for row in sizes]
    output = torch.empty(sum(received), 4, device=here.device)
    dist.all_to_all_single(output, mine(here, sum(sizes[here.rank]), 4), received, sizes[here.rank])
    equal(output, exchanged(here, sizes, 4))


@case()
def all_to_all_single_of_nothing(here):
    nothing = [0] * here.world
    output = torch.empty(0, 4, device=here.device)
    dist.all_to_all_single(output, torch.empty(0, 4, device=here.device), nothing, nothing)


@case(HCCL_ONLY)
def all_to_all(here):
    inputs = [mine(here, 1 + (here.rank + target) % 2, 3) for target in range(here.world)]
    outputs = [torch.empty(1 + (here.rank + source) % 2, 3, device=here.device) for source in range(here.world)]
    dist.all_to_all(outputs, inputs)
    for source, output in enumerate(outputs):
        equal(output, numbers(source, 1 + (here.rank + source) % 2, 3))


@case(HCCL_ONLY)
def all_to_all_by_a_matrix_of_counts(here):
    from torch_npu.distributed import all_to_all_vc

    sizes = split_sizes(here)
    output = torch.empty(sum(row[here.rank] for row in sizes), device=here.device)
    all_to_all_vc(output, mine(here, sum(sizes[here.rank])), sizes)
    equal(output, exchanged(here, sizes, 1).flatten())


@case()
def gather_to_each_rank(here):
    for root in range(here.world):
        tensors = [torch.zeros(9, device=here.device) for _ in range(here.world)] if here.rank == root else None
        dist.gather(mine(here, 9), tensors, dst=root)
        for actual, expected in zip(tensors or [], everyone(here, 9)):
            equal(actual, expected)


@case()
def scatter_from_each_rank(here):
    for root in range(here.world):
        output = torch.zeros(13, device=here.device)
        parts = [(numbers(root, 13) + 10 * rank).to(here.device) for rank in range(here.world)]
        dist.scatter(output, parts if here.rank == root else None, src=root)
        equal(output, numbers(root, 13) + 10 * here.rank)


@case()
def send_and_receive_in_a_chain(here):
    tensor = torch.zeros(1000, device=here.device)
    if here.rank > 0:
        dist.recv(tensor, here.rank - 1)
        equal(tensor, numbers(0, 1000) + (here.rank - 1))
    else:
        tensor = mine(here, 1000) - 1
    tensor += 1
    if here.rank + 1 < here.world:
        dist.send(tensor, here.rank + 1)


def neighbours(here):
    return (here.rank + 1) % here.world, (here.rank - 1) % here.world


@case()
def isend_and_irecv(here):
    """Even ranks send first: a send ends when its receive does."""
    following, preceding = neighbours(here)
    output = torch.zeros(77, dtype=torch.float16, device=here.device)
    send = lambda: dist.isend(mine(here, 77, dtype=torch.float16), following)
    receive = lambda: dist.irecv(output, preceding)
    works = [send(), receive()] if here.rank % 2 == 0 else [receive(), send()]
    for work in works:
        work.wait()
    equal(output, numbers(preceding, 77, dtype=torch.float16))


@case()
def sends_of_several_sizes_keep_their_order(here):
    if here.rank > 1:
        return
    sizes = [1, 300_000, 2, 40_000]
    for size in sizes:
        if here.rank == 0:
            dist.send(mine(here, size), 1)
        else:
            output = torch.zeros(size, device=here.device)
            dist.recv(output, 0)
            equal(output, numbers(0, size))


@case()
def batch_isend_irecv_around_a_ring(here):
    following, preceding = neighbours(here)
    outputs = torch.zeros(2, 600, device=here.device)
    operations = [dist.P2POp(dist.isend, mine(here, 600), following), dist.P2POp(dist.irecv, outputs[0], preceding)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    operations = [dist.P2POp(dist.irecv, outputs[1], following), dist.P2POp(dist.isend, mine(here, 600), preceding)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    equal(outputs, torch.stack([numbers(preceding, 600), numbers(following, 600)]))


@case()
def barrier(here):
    for _ in range(3):
        dist.barrier()
    dist.barrier(async_op=True).wait()


@case()
def objects(here):
    thing = {"rank": here.rank, "text": "x" * (10 * here.rank + 1)}
    gathered = [None] * here.world
    dist.all_gather_object(gathered, thing)
    assert [one["rank"] for one in gathered] == list(range(here.world)), gathered
    shared = [thing, here.rank] if here.rank == 1 else [None, None]
    dist.broadcast_object_list(shared, src=1)
    assert shared == [{"rank": 1, "text": "x" * 11}, 1], shared
    at_root = [None] * here.world if here.rank == 0 else None
    dist.gather_object(thing, at_root, dst=0)
    assert here.rank or [len(one["text"]) for one in at_root] == [10 * rank + 1 for rank in range(here.world)]


@case()
def scattered_objects(here):
    mine = [None]
    dist.scatter_object_list(mine, [f"for {rank}" for rank in range(here.world)] if here.rank == 0 else None, src=0)
    assert mine == [f"for {here.rank}"], mine


@case()
def objects_sent(here):
    if here.rank == 0:
        dist.send_object_list([1, "two"], dst=1)
    elif here.rank == 1:
        received = [None, None]
        dist.recv_object_list(received, src=0)
        assert received == [1, "two"], received


@case()
def groups_that_overlap(here):
    """Every pair of neighbours, and everybody, in turns."""
    pairs = [dist.new_group([rank, rank + 1]) for rank in range(here.world - 1)]
    everybody = dist.new_group()
    for _ in range(3):
        for first, group in enumerate(pairs):
            if here.rank in (first, first + 1):
                tensor = mine(here, 40)
                dist.all_reduce(tensor, group=group)
                equal(tensor, numbers(first, 40) + numbers(first + 1, 40))
        tensor = mine(here, 40)
        dist.all_reduce(tensor, group=everybody)
        equal(tensor, sum(everyone(here, 40)))
    for first, group in enumerate(pairs):
        if here.rank in (first, first + 1):
            dist.destroy_process_group(group)
    dist.destroy_process_group(everybody)


@case()
def a_group_of_one(here):
    groups = [dist.new_group([rank]) for rank in range(here.world)]
    tensor = mine(here, 12)
    dist.all_reduce(tensor, group=groups[here.rank])
    equal(tensor, numbers(here.rank, 12))


@case()
def a_group_in_another_order(here):
    group = dist.new_group(list(reversed(range(here.world))))
    output = torch.zeros(here.world * 4, device=here.device)
    dist.all_gather_into_tensor(output, mine(here, 4), group=group)
    ranks = dist.get_process_group_ranks(group)
    equal(output, torch.cat([numbers(rank, 4) for rank in ranks]))


@case()
def groups_come_and_go(here):
    for number in range(5):
        group = dist.new_group()
        tensor = mine(here, 8 + number)
        dist.all_reduce(tensor, group=group)
        equal(tensor, sum(everyone(here, 8 + number)))
        dist.destroy_process_group(group)


@case()
def device_mesh(here):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(here.device.type, (here.world // 2, 2), mesh_dim_names=("outer", "inner"))
    tensor = mine(here, 30)
    dist.all_reduce(tensor, group=mesh.get_group("inner"))
    first = here.rank // 2 * 2
    equal(tensor, numbers(first, 30) + numbers(first + 1, 30))
    dist.all_reduce(tensor, group=mesh.get_group("outer"))
    equal(tensor, sum(everyone(here, 30)))


@case()
def distributed_tensors(here):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(here.device.type, (here.world,))
    whole = numbers(7, 4 * here.world, 2 * here.world)
    rows = distribute_tensor(whole.to(here.device), mesh, [Shard(0)])
    equal(rows.to_local(), whole.chunk(here.world)[here.rank])
    equal(rows.full_tensor(), whole)
    columns = rows.redistribute(placements=[Shard(1)])
    equal(columns.to_local(), whole.chunk(here.world, 1)[here.rank])
    partial = DTensor.from_local(mine(here, here.world, 3), mesh, [Partial()])
    total = sum(everyone(here, here.world, 3))
    equal(partial.redistribute(placements=[Replicate()]).to_local(), total)
    equal(partial.redistribute(placements=[Shard(0)]).to_local(), total[here.rank : here.rank + 1])
    equal((rows + 1).sum().full_tensor(), (whole + 1).sum())


@case()
def distributed_tensors_of_uneven_shards(here):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh(here.device.type, (here.world,))
    whole = numbers(5, 2 * here.world + 1, 3)
    rows = distribute_tensor(whole.to(here.device), mesh, [Shard(0)])
    equal(rows.full_tensor(), whole)
    equal(rows.redistribute(placements=[Shard(1)]).full_tensor(), whole)


@case()
def functional_collectives(here):
    group = dist.group.WORLD
    equal(functional.all_reduce(mine(here, 21), "sum", group), sum(everyone(here, 21)))
    equal(functional.all_gather_tensor(mine(here, 4, 2), 0, group), torch.cat(everyone(here, 4, 2)))
    output = functional.reduce_scatter_tensor(mine(here, 2 * here.world), "sum", 0, group)
    equal(output, sum(everyone(here, 2 * here.world)).chunk(here.world)[here.rank])
    output = functional.all_to_all_single(mine(here, 2 * here.world), None, None, group)
    equal(output, torch.cat([part.chunk(here.world)[here.rank] for part in everyone(here, 2 * here.world)]))
    equal(functional.broadcast(mine(here, 5), 1, group), numbers(1, 5))


@case()
def gradients_of_collectives(here):
    from torch.distributed.nn.functional import all_reduce

    leaf = mine(here, 15).requires_grad_()
    (all_reduce(leaf) * (here.rank + 1)).sum().backward()
    equal(leaf.grad, torch.full((15,), float(sum(range(1, here.world + 1)))))
