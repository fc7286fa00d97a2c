"""Processes with the same seed compute the same bits: no stopwatch chooses, no sum depends on which thread was first."""
import pytest
import torch

import torch_npu  # noqa: F401

TRAIN = """if True:
    import hashlib, os, torch, torch_npu
    import torch.distributed as dist
    from torch import nn

    torch.set_num_threads({threads})
    torch.manual_seed(0)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.npu.set_device(rank)
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Flatten(),
                          nn.Linear(64 * 13 * 13, 256), nn.GELU(), nn.Linear(256, 10)).npu()
    parameters = list(model.parameters())
    if world > 1:
        dist.init_process_group("hccl")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    images, classes = torch.randn(64, 3, 32, 32).npu(), torch.randint(10, (64,)).npu()
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), classes).backward()
        optimizer.step()
    digest = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in parameters)).hexdigest()
    os.write(1, f"weights {{digest}}\\n".encode())   # one call, whole: the ranks share the pipe
    if world > 1:
        dist.destroy_process_group()
"""


def weights_of(result):
    assert result.returncode == 0, result.stderr
    return [line for line in result.stdout.splitlines() if line.startswith("weights")][-1]


@pytest.mark.parametrize("threads", [1, 2])
def test_two_processes_train_to_the_same_bits(python, threads):
    first, second = (weights_of(python(TRAIN.format(threads=threads))) for _ in range(2))
    assert first == second


def test_two_ranks_with_the_data_of_one_train_to_its_bits(python, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN.format(threads=1).replace("if True:", "if __name__ == '__main__':", 1))
    run = f"""if True:
        from torch.distributed.run import main
        main(["--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", {str(script)!r}])"""
    programs = (TRAIN.format(threads=1), run, run)
    alone, together, again = (weights_of(python(program, SOFTCANN_DEVICE_COUNT=2)) for program in programs)
    assert together == alone    # the mean of two equal gradients is exact
    assert again == together


def test_sums_of_repeated_indices_are_added_in_order():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.manual_seed(0)
        values, places = torch.randn(300_000), torch.randint(7, (300_000,))
        inorder = torch.zeros(7).index_add_(0, places, values)   # element by element
        for _ in range(5):
            out = torch.zeros(7, device="npu")
            out.index_put_((places.npu(),), values.npu(), accumulate=True)
            assert torch.equal(out.cpu(), inorder)
            assert torch.equal(torch.zeros(7, device="npu").put_(places.npu(), values.npu(), accumulate=True).cpu(), inorder)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("way", ["direct", "onednn", "widen"])
def test_every_way_to_multiply_agrees(python, way):
    result = python("""if True:
        import torch, torch_npu
        torch.manual_seed(0)
        for dtype, tolerance in ((torch.float32, 1e-4), (torch.float16, 1e-1), (torch.bfloat16, 1)):
            a, b, c = (torch.randn(200, 200).to(dtype) for _ in range(3))
            wide = a.double() @ b.double()
            for ours, exact in ((a.npu() @ b.npu(), wide), (torch.addmm(c.npu(), a.npu(), b.npu()), wide + c.double()),
                                (torch.addmm(c[0].npu(), a.npu(), b.npu()), wide + c[0].double())):
                assert (ours.cpu().double() - exact).abs().max() < tolerance, dtype""", SOFTCANN_GEMM=way)
    assert result.returncode == 0, result.stderr


def test_an_unknown_way_to_multiply_is_refused(python):
    result = python("import torch, torch_npu; torch.ones(1, device='npu')", SOFTCANN_GEMM="fastest")
    assert result.returncode != 0
    assert "SOFTCANN_GEMM=fastest is not valid: auto, direct, onednn or widen is expected" in result.stderr
