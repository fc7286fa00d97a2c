"""The tools of docs/debugging.md beside collectives: none of them changes what a program does, or finds fault with a right one."""
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import sys, torch, torch_npu, torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.fsdp import fully_shard

dist.init_process_group("hccl")
rank = dist.get_rank()
torch.npu.set_device(rank)
if len(sys.argv) > 1:
    torch.npu.init_dump()
    torch.npu.set_dump({"dump_path": sys.argv[1], "dump_data": "stats"})
x, y = torch.full((4,), rank + 1.0, device="npu"), torch.zeros(4, device="npu")
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)]):
    work.wait()
assert y.tolist() == [2 - rank] * 4
with dist._coalescing_manager(device=torch.device("npu", rank), async_ops=True) as both:
    dist.all_reduce(x)
    dist.all_reduce(y)
both.wait()
work = dist.all_reduce(x, async_op=True)
work.wait()
assert (functional.all_reduce(x, "sum", dist.group.WORLD) + y).tolist() == [15] * 4
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).npu())
sharded = fully_shard(torch.nn.Linear(4, 4).npu())
for module in (model, sharded):
    optimizer = torch.optim.AdamW(module.parameters())
    for _ in range(2):
        module(x.view(1, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
if len(sys.argv) > 1:
    torch.npu.finalize_dump()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("tool", ["TORCH_NPU_SANITIZER=1", "TORCH_NPU_SHADOW=cpu", "TORCH_NPU_CHECK_NAN_INF=1", "dump"])
def test_two_ranks_with_a_tool(tool, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    name, _, value = tool.partition("=")
    environment = {**os.environ, "SOFTCANN_DEVICE_COUNT": "2", "OMP_NUM_THREADS": "1", **({name: value} if value else {})}
    torchrun = pathlib.Path(sys.executable).parent / "torchrun"
    arguments = [] if value else [str(tmp_path / "dump")]
    command = [torchrun, "--standalone", "--nproc-per-node", "2", script, *arguments]
    run = subprocess.run(command, env=environment, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert run.returncode == 0, run.stdout
    if arguments:
        for rank in (0, 1):
            lines = (tmp_path / "dump" / f"rank_{rank}" / "index.jsonl").read_text()
            assert "c10d.allreduce_.default" in lines and "c10d.send.default" in lines and '"step": 2' in lines
