"""The ways to train one network on several devices, in steps of the same kind on every backend: `train(rank, programs, backends)` gives the losses.

Each program gets its `ranks.Rank` and returns the loss of each of its steps on this rank, from the same weights and data everywhere.
"""

import functools
import traceback

import torch
from torch import distributed as dist, nn
from torch.nn import functional as F

from networks import NETWORKS, DecoderBlock, LlamaBlock

STEPS = 20
PROGRAMS = {}


def program(*, world=None):
    """Registers a program; `world` are the numbers of ranks that it can run on, if not all."""

    def register(function):
        PROGRAMS[function.__name__] = (function, world)
        return function

    return register


def names(world):
    return [name for name, (_, worlds) in PROGRAMS.items() if worlds is None or world in worlds]


def train(here, programs, backends):
    """For each backend the losses of each program on this rank, or what went wrong."""
    return {backend: train_on(here, programs, backend) for backend in backends}


def train_on(here, programs, backend):
    outcomes = {}
    with here.group(backend):
        for name in programs:
            try:
                outcomes[name] = PROGRAMS[name][0](here)
            except Exception:
                outcomes[name] = traceback.format_exc()
                print(name, outcomes[name], flush=True)
    return outcomes


def adamw(weights, **options):
    return torch.optim.AdamW(weights, lr=5e-3, weight_decay=0.1, **options)


def share(here, network, step):
    """This rank's own batch of a step."""
    return network.batch(step * here.world + here.rank, here.device)


def learn(model, optimiser, batch_of_step, loss):
    """Trains; `loss(model, inputs, answers)`."""
    losses = []
    for step in range(STEPS):
        one = loss(model, *batch_of_step(step))
        optimiser.zero_grad()
        one.backward()
        optimiser.step()
        losses.append(one.detach())
    return torch.stack(losses).cpu().tolist()


def learn_own_batches(here, network, model):
    return learn(model, adamw(model.parameters()), lambda step: share(here, network, step), network.loss)


def ddp_model(here, model, **options):
    devices = [here.device.index] if here.device.type == "npu" else None
    return nn.parallel.DistributedDataParallel(model, device_ids=devices, **options)


@program()
def ddp(here):
    network = NETWORKS["gpt"]
    return learn_own_batches(here, network, ddp_model(here, network.model().to(here.device), bucket_cap_mb=0.02))


@program()
def ddp_of_a_network_with_buffers(here):
    """Batch norm's statistics are buffers, which rank 0 sends to the others before each step."""
    network = NETWORKS["cnn"]
    model = ddp_model(here, network.model().to(here.device))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    return learn(model, optimiser, lambda step: share(here, network, step), network.loss)


class Branches(nn.Module):
    """Two branches of which each step uses one: the other's weights get no gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 16), nn.Linear(6, 16), nn.Linear(16, 5)
        self.step = 0

    def forward(self, x):
        self.step += 1
        return self.last(torch.tanh((self.first if self.step % 2 else self.second)(x)))


def points(here, step):
    generator = torch.Generator().manual_seed(step * here.world + here.rank)
    x = torch.randn(12, 6, generator=generator)
    return x.to(here.device), x[:, :5].argmax(1).to(here.device)


def class_loss(model, inputs, answers):
    return F.cross_entropy(model(inputs), answers)


@program()
def ddp_with_unused_weights(here):
    torch.manual_seed(0)
    model = ddp_model(here, Branches().to(here.device), find_unused_parameters=True)
    return learn(model, torch.optim.SGD(model.parameters(), lr=0.5), functools.partial(points, here), class_loss)


@program()
def ddp_with_accumulation_and_clipping(here):
    """Gradients of two batches before each exchange, clipped by their norm."""
    network = NETWORKS["gpt"]
    model = ddp_model(here, network.model().to(here.device), gradient_as_bucket_view=True, static_graph=False)
    optimiser = adamw(model.parameters())
    losses = []
    for step in range(STEPS):
        with model.no_sync():
            network.loss(model, *share(here, network, 2 * step)).backward()
        loss = network.loss(model, *share(here, network, 2 * step + 1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.detach())
    return torch.stack(losses).cpu().tolist()


def fsdp_losses(here, strategy):
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    network = NETWORKS["gpt"]
    model = FullyShardedDataParallel(
        network.model().to(here.device),
        sharding_strategy=ShardingStrategy[strategy],
        auto_wrap_policy=ModuleWrapPolicy({DecoderBlock}),
        device_id=here.device,
        use_orig_params=True,
    )
    optimiser = adamw(model.parameters())
    losses = []
    for step in range(STEPS):
        loss = network.loss(model, *share(here, network, step))
        optimiser.zero_grad()
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu().tolist()


@program()
def fsdp1(here):
    return fsdp_losses(here, "FULL_SHARD")


@program()
def fsdp1_sharded_gradients(here):
    return fsdp_losses(here, "SHARD_GRAD_OP")


@program()
def fsdp1_not_sharded(here):
    return fsdp_losses(here, "NO_SHARD")


def fsdp2_model(here, model, mesh, blocks, **options):
    from torch.distributed.fsdp import fully_shard

    for block in blocks:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model


def line(here):
    """All ranks in one dimension."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(here.device.type, (here.world,))


@program()
def fsdp2(here):
    network = NETWORKS["gpt"]
    model = network.model().to(here.device)
    model = fsdp2_model(here, model, line(here), model.blocks)
    optimiser = adamw(model.parameters())
    losses = []
    for step in range(STEPS):
        loss = network.loss(model, *share(here, network, step))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu().tolist()


@program()
def fsdp2_in_bfloat16(here):
    """Weights travel and compute in bfloat16, gradients are reduced in float32."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    network = NETWORKS["llama"]
    model = network.model().to(here.device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = fsdp2_model(here, model, line(here), model.blocks, mp_policy=policy, reshard_after_forward=False)
    return learn_own_batches(here, network, model)


@program(world=[4])
def hybrid_sharding(here):
    """Sharded over pairs, replicated over two of them."""
    from torch.distributed.device_mesh import init_device_mesh

    network = NETWORKS["gpt"]
    mesh = init_device_mesh(here.device.type, (2, 2), mesh_dim_names=("replicas", "shards"))
    model = network.model().to(here.device)
    return learn_own_batches(here, network, fsdp2_model(here, model, mesh, model.blocks))


def wide_llama():
    torch.manual_seed(0)
    return NETWORKS["llama"].make(width=32, heads=8)


def shard_heads(model, mesh):
    """Megatron's layout: the first product of each pair by columns, the second by rows."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    columns, rows = ("query", "key", "value", "gate", "up"), ("out", "down")
    plan = {name: ColwiseParallel() for name in columns} | {name: RowwiseParallel() for name in rows}
    for block in model.blocks:
        assert isinstance(block, LlamaBlock)
        block.heads //= mesh.size()
        block.shared //= mesh.size()
        parallelize_module(block, mesh, plan)
    ends = {"letters": RowwiseParallel(input_layouts=Replicate()), "scores": ColwiseParallel(output_layouts=Replicate())}
    return parallelize_module(model, mesh, ends)


@program()
def tensor_parallel(here):
    """All ranks have the same batch and a part of each matrix. The norms' weights are plain tensors, so no foreach."""
    network = NETWORKS["llama"]
    model = shard_heads(wide_llama().to(here.device), line(here))
    return learn(model, adamw(model.parameters(), foreach=False), lambda step: network.batch(step, here.device), network.loss)


@program()
def sequence_parallel(here):
    """A feed-forward network whose norms see a part of each sequence."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)).to(here.device)
    plan = {
        "0": SequenceParallel(),
        "1": ColwiseParallel(input_layouts=Shard(1)),
        "3": RowwiseParallel(output_layouts=Shard(1)),
    }
    model = parallelize_module(model, line(here), plan)

    def batch(step):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(3, 4 * here.world, 8, generator=generator)
        return x.to(here.device), x.roll(1, 2)

    def loss(model, inputs, answers):
        part = answers.chunk(here.world, 1)[here.rank].to(here.device)
        return F.mse_loss(model(inputs.chunk(here.world, 1)[here.rank].contiguous()), part)

    return learn(model, adamw(model.parameters()), batch, loss)


class Stage(nn.Module):
    """A rank's part of a deep network: as many layers on each rank."""

    def __init__(self, width=16, layers=2):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.Tanh()) for _ in range(layers)))

    def forward(self, x):
        return x + self.layers(x)


def stage(here):
    torch.manual_seed(100 + here.rank)
    return Stage().to(here.device)


def waves(here, step, micro=4):
    """Pieces of a batch, and what to make of them."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(micro, 6, 16, generator=generator)
    return x.to(here.device), x.flip(2).to(here.device)


@program()
def pipeline(here):
    """Activations go to the next rank and gradients come back, piece by piece; while one piece is computed the next is on its way."""
    model = stage(here)
    optimiser = adamw(model.parameters())
    first, last = here.rank == 0, here.rank == here.world - 1
    losses = []
    for step in range(STEPS):
        pieces, answers = waves(here, step)
        inputs, outputs = [], []
        for number, piece in enumerate(pieces):
            if not first:
                piece = torch.empty_like(piece)
                dist.irecv(piece, here.rank - 1).wait()
                piece.requires_grad_()
            out = model(piece)
            inputs.append(piece)
            outputs.append(out)
            if not last:
                dist.isend(out.detach(), here.rank + 1).wait()
        total = 0
        for number, (piece, out) in enumerate(zip(inputs, outputs)):
            if last:
                loss = F.mse_loss(out, answers[number]) / len(inputs)
                loss.backward()
                total = total + loss.detach()
            else:
                gradient = torch.empty_like(out)
                dist.recv(gradient, here.rank + 1)
                out.backward(gradient)
            if not first:
                dist.send(piece.grad, here.rank - 1)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(total if last else torch.zeros((), device=here.device))
    return torch.stack(losses).cpu().tolist()


@program()
def pipeline_in_batches(here):
    """One piece forward, one backward: what goes down and what comes up is exchanged in one batch."""
    model = stage(here)
    optimiser = adamw(model.parameters())
    up, down = here.rank - 1, here.rank + 1
    losses = []
    for step in range(STEPS):
        pieces, answers = waves(here, step, micro=1)
        x = pieces[0]

        def exchange(*operations):
            works = dist.batch_isend_irecv([dist.P2POp(*operation) for operation in operations])
            for work in works:
                work.wait()

        status = torch.empty(3, device=here.device)
        if up >= 0:
            x = torch.empty_like(x)
            exchange((dist.irecv, x, up), (dist.irecv, status, up))
            assert status.cpu().tolist() == [step, up, 1.0]
            x.requires_grad_()
        out = model(x)
        loss = torch.zeros((), device=here.device)
        if down < here.world:
            note = torch.tensor([step, here.rank, 1.0], device=here.device)
            exchange((dist.isend, out.detach(), down), (dist.isend, note, down))
            gradient = torch.empty_like(out)
            exchange((dist.irecv, gradient, down))
            out.backward(gradient)
        else:
            loss = F.mse_loss(out, answers[0])
            loss.backward()
        if up >= 0:
            exchange((dist.isend, x.grad, up))
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.detach())
    return torch.stack(losses).cpu().tolist()


@program()
def pipeline_by_schedule(here):
    """torch.distributed.pipelining, 1F1B."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    class Part(PipelineStage):
        """torch 2.9.0 greets its neighbours with an int64 where they receive a float32, which is an error (pull request 165539 of PyTorch)."""

        def _get_init_p2p_neighbors_ops(self):
            value = torch.zeros(1, device=self.device)
            peers = [peer for peer in (here.rank - 1, here.rank + 1) if 0 <= peer < here.world]
            return [dist.P2POp(op, value.clone(), peer) for peer in peers for op in (dist.irecv, dist.isend)]

    model = stage(here)
    optimiser = adamw(model.parameters())
    part = Part(model, here.rank, here.world, here.device)
    schedule = Schedule1F1B(part, n_microbatches=4, loss_fn=F.mse_loss)
    losses = []
    for step in range(STEPS):
        pieces, answers = (tensor.flatten(0, 1) for tensor in waves(here, step))
        optimiser.zero_grad()
        of_pieces = []
        if here.rank == 0:
            schedule.step(pieces)
        elif here.rank == here.world - 1:
            schedule.step(target=answers, losses=of_pieces)
        else:
            schedule.step()
        optimiser.step()
        losses.append(torch.stack(of_pieces).mean().detach() if of_pieces else torch.zeros((), device=here.device))
    return torch.stack(losses).cpu().tolist()


class Exchange(torch.autograd.Function):
    """Rows to other ranks; gradients come back the same way."""

    @staticmethod
    def forward(context, rows, sent, received):
        context.sizes = sent, received
        output = rows.new_empty(sum(received), rows.shape[1])
        dist.all_to_all_single(output, rows.contiguous(), received, sent)
        return output

    @staticmethod
    def backward(context, gradient):
        sent, received = context.sizes
        output = gradient.new_empty(sum(sent), gradient.shape[1])
        dist.all_to_all_single(output, gradient.contiguous(), sent, received)
        return output, None, None


class Mixture(nn.Module):
    """One expert on each rank; each row goes to the expert with the best score, and back."""

    def __init__(self, here, width=12):
        super().__init__()
        torch.manual_seed(0)
        self.world = here.world
        self.gate, self.last = nn.Linear(width, here.world), nn.Linear(width, 5)
        torch.manual_seed(200 + here.rank)
        self.expert = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width))

    def shared(self):
        """The weights that are the same on every rank."""
        return [*self.gate.parameters(), *self.last.parameters()]

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(1).max(1)
        order = chosen.argsort(stable=True)
        sent = F.one_hot(chosen, self.world).sum(0)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        sent, received = sent.tolist(), received.tolist()
        rows = Exchange.apply(x[order], sent, received)
        rows = Exchange.apply(self.expert(rows), received, sent)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        return self.last(x + rows[back] * weights[:, None])


@program()
def mixture_of_experts(here):
    """Rows by all_to_all with uneven splits; the common weights' gradients by all_reduce."""
    model = Mixture(here).to(here.device)
    optimiser = adamw(model.parameters())
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step * here.world + here.rank)
        x = torch.randn(40, 12, generator=generator)
        loss = F.cross_entropy(model(x.to(here.device)), x[:, :5].argmax(1).to(here.device))
        optimiser.zero_grad()
        loss.backward()
        for weight in model.shared():
            dist.all_reduce(weight.grad)
            weight.grad /= here.world
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu().tolist()


def data_parallel(device):
    """One process, two devices: not a program of ranks."""
    network = NETWORKS["gpt"]
    model = network.model().to(device)
    if device == "npu":
        model = nn.DataParallel(model, device_ids=[0, 1])
    return learn(model, adamw(model.parameters()), lambda step: network.batch(step, device), network.loss)
