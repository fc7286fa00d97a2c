"""Distributed checkpoints: saved on four ranks, read again on two, and the other way round; asynchronously too."""
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from test_training import make_model, optimizer_of, train


def sharded(world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = make_model()
    mesh = init_device_mesh("npu", (world,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, optimizer_of(model.parameters())


def state_of(model, optimizer):
    from torch.distributed.checkpoint.state_dict import get_state_dict

    state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": state, "optimizer": optimizer_state}


def save(rank, world, path, asynchronous):
    model, optimizer = sharded(world)
    train(model, optimizer, rank, world)
    if asynchronous:
        gloo = dist.new_group(list(range(world)), backend="gloo")
        dcp.async_save(state_of(model, optimizer), checkpoint_id=path, process_group=gloo).result()
    else:
        dcp.save(state_of(model, optimizer), checkpoint_id=path)
    return train(model, optimizer, rank, world)


def load(rank, world, path):
    from torch.distributed.checkpoint.state_dict import set_state_dict

    model, optimizer = sharded(world)
    state = state_of(model, optimizer)
    dcp.load(state, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return train(model, optimizer, rank, world)


def test_another_number_of_ranks_goes_on_where_the_first_stopped(two, four, tmp_path):
    for writers, readers, asynchronous in ((four, two, False), (two, four, True)):
        path = str(tmp_path / f"checkpoint{writers.world}")
        went_on = writers.run(save, path, asynchronous)[0]
        for losses in readers.run(load, path):
            torch.testing.assert_close(torch.tensor(losses), torch.tensor(went_on), rtol=1e-5, atol=0)
