"""Groups: sub-groups, splitting, options, default backends, ending and starting again."""
import contextlib
import os
import socket
import subprocess
import sys
import time
import warnings
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from rank_pool import Ranks


def total(group=None):
    x = torch.full((3,), float(dist.get_rank() + 1), device="npu")
    dist.all_reduce(x, group=group)
    return x[0].item()


def variables(rank, world):
    """A group is made with TORCH_HCCL_* as they are then, not as they were when torch_npu was imported."""
    x, groups = torch.ones(3, device="npu"), []
    for text in ("1", None):
        try:
            if text:
                os.environ["TORCH_HCCL_ENABLE_TIMING"] = text
            groups.append(dist.new_group([rank], use_local_synchronization=True))
        finally:
            os.environ.pop("TORCH_HCCL_ENABLE_TIMING", None)
    timed, plain = (dist.all_reduce(x, group=group, async_op=True) for group in groups)
    torch.npu.synchronize()
    assert timed._get_duration() > 0
    with pytest.raises(RuntimeError, match="was not measured"):
        plain._get_duration()


def test_variables_set_after_the_import(two):
    two.run(variables)


def priorities(rank, world):
    found = []
    for value in ("0", "1"):
        os.environ["TORCH_HCCL_HIGH_PRIORITY"] = value
        try:
            group = dist.new_group()
        finally:
            del os.environ["TORCH_HCCL_HIGH_PRIORITY"]
        found.append(group._get_backend(torch.device("npu")).options.is_high_priority_stream)
    return found


def test_streams_of_high_priority(two):
    assert two.run(priorities) == [[False, True]] * 2


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def parallel(rank, world, port):
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", init_method=f"parallel://127.0.0.1:{port}", rank=rank, world_size=world)
    return total()


def test_parallel_scheme():
    with Ranks(2, join=False) as ranks:
        assert ranks.run(parallel, free_port()) == [3, 3]


def test_run(tmp_path):
    script = tmp_path / "script.py"
    # In one write: the ranks share the output.
    script.write_text("import os; os.write(1, 'rank {RANK} of {WORLD_SIZE}\\n'.format(**os.environ).encode())")
    command = [sys.executable, "-m", "torch_npu.distributed.run", "--rdzv-backend=parallel", "--nproc-per-node=2",
               "--enable_tiered_parallel_tcpstore=true", f"--master-port={free_port()}", str(script)]
    run = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert run.returncode == 0 and "rank 0 of 2" in run.stdout and "rank 1 of 2" in run.stdout, run.stdout


def sub_groups(rank, world):
    three = dist.new_group([0, 1, 3])
    if rank != 2:
        assert total(three) == 1 + 2 + 4
        x = torch.full((2,), float(rank), device="npu")
        dist.broadcast(x, src=3, group=three)
        assert x.tolist() == [3, 3]
    pairs, _ = dist.new_subgroups(2)
    assert total(pairs) == (3 if rank < 2 else 7)
    alone = [dist.new_group([r]) for r in range(world)][rank]
    assert total(alone) == rank + 1
    assert total() == 10
    dist.barrier(pairs)


def options(rank, world):
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    chosen = ProcessGroupHCCL.Options()
    chosen.is_high_priority_stream = True
    chosen.hccl_config = {"hccl_buffer_size": 64, "qos_service_level": 7, "qos_traffic_class": 224, "group_name": "ours"}
    group = dist.new_group(list(range(world)), pg_options=chosen, timeout=timedelta(seconds=333))
    backend = group._get_backend(torch.device("npu"))
    assert isinstance(backend, ProcessGroupHCCL) and backend.name() == "hccl"
    assert backend.options._timeout == timedelta(seconds=333) and backend.options.is_high_priority_stream
    assert backend.options.hccl_config == {"hccl_buffer_size": 64, "qos_service_level": 7, "qos_traffic_class": 224,
                                                   "group_name": "ours"}
    assert total(group) == world * (world + 1) / 2
    assert backend.get_hccl_comm_name(torch.npu.current_device()) == "ours"
    with pytest.raises(ValueError, match="unknown setting"):
        chosen.hccl_config = {"no_such": 1}
    for wrong in ({"qos_service_level": 8}, {"qos_traffic_class": 256}, {"qos_traffic_class": -1}):
        with pytest.raises(ValueError, match="hccl_config: qos_.* but must be 0 to"):
            chosen.hccl_config = wrong
    for wrong in ({"hccl_buffer_size": "64"}, {"hccl_buffer_size": 1.5}, {"hccl_job_id": [1]}, {"group_name": 3}):
        with pytest.raises(TypeError, match="hccl_config: .* must be"):
            chosen.hccl_config = wrong
    assert chosen.hccl_config["hccl_buffer_size"] == 64   # as it was
    with pytest.raises(TypeError, match="pg_options"):
        dist.new_group(list(range(world)), pg_options="fast")


def monitored(rank, world):
    dist.monitored_barrier()
    group = dist.new_group(list(range(world)))
    if rank == 0:
        with pytest.raises(RuntimeError, match="rank.* 1 did not arrive within 200 ms"):
            dist.monitored_barrier(group, timedelta(milliseconds=200))
    dist.barrier()


def timeouts(rank, world):
    def of(group, device):
        return group._get_backend(torch.device(device)).options._timeout

    set_timeout = dist.distributed_c10d._set_pg_timeout
    group, both = dist.new_group(list(range(world))), dist.new_group(list(range(world)), backend="cpu:gloo,npu:hccl")
    before = of(dist.group.WORLD, "npu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        set_timeout(timedelta(seconds=23), group)
        set_timeout(timedelta(seconds=252), both)
        assert (of(group, "npu"), of(both, "npu"), of(both, "cpu")) == (timedelta(seconds=23), *[timedelta(seconds=252)] * 2)
        set_timeout(before + timedelta(seconds=1))
    assert of(dist.group.WORLD, "npu") == before + timedelta(seconds=1)
    set_timeout(before)
    alone = dist.new_group([0])
    if rank != 0:
        with pytest.raises(ValueError, match="Invalid process group"):
            set_timeout(timedelta(seconds=1), alone)


def test_timeouts(two):
    two.run(timeouts)


def test_sub_groups(four):
    four.run(sub_groups)


def test_options(two):
    two.run(options)


def test_monitored_barrier(two):
    two.run(monitored)


def start(rank, world, path, backend, eager):
    torch.npu.set_device(rank)
    dist.init_process_group(backend, store=dist.FileStore(path, world), rank=rank, world_size=world,
                            device_id=torch.device("npu", rank) if eager else None, timeout=timedelta(seconds=300))


def end(rank, world):
    dist.destroy_process_group()
    assert not dist.is_initialized()


def defaults(rank, world):
    assert total() == world * (world + 1) / 2
    devices = {device.type for device in dist.group.WORLD._device_types}
    if "cpu" in devices:
        x = torch.ones(3)
        dist.all_reduce(x)
        assert x.tolist() == [world] * 3
    return sorted(devices)


def split(rank, world):
    groups = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    assert total(groups) == (3 if rank < 2 else 7)
    backend = groups._get_backend(torch.device("npu"))
    assert backend.options.global_ranks_in_group == ([0, 1] if rank < 2 else [2, 3])
    new = dist.new_group([1, 2])
    if rank in (1, 2):
        assert total(new) == 5


def test_backends_ending_and_starting_again(tmp_path):
    with Ranks(4, join=False) as ranks:
        for turn, (backend, eager) in enumerate([("hccl", True), ("cpu:gloo,npu:hccl", False), (None, True), (None, False)]):
            ranks.run(start, str(tmp_path / f"store{turn}"), backend, eager)
            expected = ["cpu", "npu"] if backend and "gloo" in backend else ["npu"]
            assert ranks.run(defaults) == [expected] * 4
            if eager:
                ranks.run(split)
            ranks.run(end)


def again_on_one_store(rank, world, path):
    store = dist.FileStore(path, world)
    for _ in range(3):
        torch.npu.set_device(rank)
        dist.init_process_group("hccl", store=store, rank=rank, world_size=world)
        assert total() == 3
        dist.destroy_process_group()


def test_the_same_store_serves_again(tmp_path):
    with Ranks(2, join=False) as ranks:
        ranks.run(again_on_one_store, str(tmp_path / "store"))


def test_a_communicator_that_cannot_be_ended_does_not_keep_the_group(python):
    done = python("""if True:
        import torch, torch.distributed as dist
        for _ in range(2):
            dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
            x = torch.ones(4, device="npu")
            dist.all_reduce(x)
            print(x.sum().item())
            dist.destroy_process_group()""", SOFTCANN_FAULT="HcclCommDestroy:nth=1:code=4")
    assert done.returncode == 0 and done.stdout.split() == ["4.0", "4.0"], done.stderr
    assert "HcclCommDestroy" in done.stderr


def test_a_kernel_that_failed_does_not_keep_the_group(python):
    """What a collective was to reduce was not computed: that is told, and the group can be ended and made again."""
    done = python("""if True:
        import torch, torch.distributed as dist
        for _ in range(2):
            dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
            try:
                x = torch.arange(4.0, device="npu")
                dist.all_reduce(x)
                print(x.sum().item())
            except RuntimeError as error:
                print("told" if "SOFTCANN_FAULT" in str(error) else error)
            finally:
                dist.destroy_process_group()
                try:
                    torch.npu.synchronize()
                except RuntimeError:
                    pass""", SOFTCANN_FAULT="task.aclnnArange:nth=1:code=507015")
    assert done.returncode == 0 and done.stdout.split() == ["told", "6.0"], done.stdout + done.stderr


def test_a_device_error_does_not_call_an_ended_collective_one_in_flight(python):
    done = python("""if True:
        import time, torch, torch.distributed as dist
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
        dist.all_reduce(torch.ones(4, device="npu"))
        torch.npu.synchronize()
        until = time.monotonic() + 60
        while time.monotonic() < until:   # until the watchdog has seen its end
            time.sleep(0.2)
            try:
                torch.arange(4.0, device="npu").sum().item()
            except RuntimeError as error:
                print(str(error).splitlines()[-1])
                break
        """, SOFTCANN_FAULT="task.aclnnArange:nth=5:code=507015")
    assert "no collective in flight; the last: all_reduce(4 elements" in done.stdout, done.stdout + done.stderr


def test_every_setting_of_a_communicator_is_kept():
    from torch_npu.distributed import ProcessGroupHCCL

    settings = {"hccl_buffer_size": 64, "hccl_world_rank_id": 3, "hccl_job_id": 2**40, "hccl_sdma_qos": 2, "hccl_buffer_name": "shared",
                "hccl_retry_enable": "L0:0, L1:0, L2:0", "hccl_retry_params": "MaxCnt:3", "hccl_sym_win_max_mem_size_per_rank": 4}
    options = ProcessGroupHCCL.Options()
    options.hccl_config = settings
    assert options.hccl_config == settings


def test_the_published_options():
    from torch_npu.distributed import ProcessGroupHCCL

    options = ProcessGroupHCCL.Options()
    assert options.op_timeout == timedelta(seconds=10) and options.group_id == ""
    options.op_timeout, options.group_id = timedelta(seconds=3), "seven"
    assert options.op_timeout == timedelta(seconds=3) and options.group_id == options.group_name == "seven"


def configured(rank, world):
    from torch_npu.distributed import ProcessGroupHCCL

    options = ProcessGroupHCCL.Options()
    options.hccl_config = {"hccl_world_rank_id": rank, "hccl_job_id": 5, "hccl_retry_enable": "L0:0, L1:0, L2:0",
                           "hccl_buffer_name": "shared", "hccl_sym_win_max_mem_size_per_rank": 4}
    group = dist.new_group(list(range(world)), pg_options=options)
    assert total(group) == 3 and group._get_backend(torch.device("npu")).options.group_id == group.group_name


def test_a_group_with_every_kind_of_setting(two):
    two.run(configured)


def sequence_numbers(rank, world):
    group = dist.new_group([0, 1])
    assert group._get_sequence_number_for_group() == 0
    total(group)
    total(group)
    assert group._get_sequence_number_for_group() == 2


def test_sequence_numbers(two):
    two.run(sequence_numbers)


def more_time(rank, world):
    group = dist.new_group([0, 1], timeout=timedelta(seconds=1))
    total(group)   # connects
    dist.distributed_c10d._add_ephemeral_timeout_for_all_pgs(timedelta(seconds=60))
    if rank == 1:
        time.sleep(2.5)
    assert total(group) == 3
    sys.modules["torch_npu._C._distributed_c10d"]._dump_hccl_trace_json()   # looks at what has run, as the watchdog does in time
    # That was the first since, so the next has the group's own timeout again.
    if rank == 1:
        time.sleep(2.5)
    if rank == 0:
        with pytest.raises(RuntimeError, match="ran into its timeout of 1000 ms"):
            total(group)
    else:
        with contextlib.suppress(RuntimeError):   # rank 0 may have left what this rank needed, or not
            total(group)


def test_more_time_until_the_next_collective():
    with Ranks(2) as ranks:
        ranks.run(more_time)


def unwatched(rank, world):
    group = dist.new_group([0, 1], timeout=timedelta(seconds=1))
    backend = group._get_backend(torch.device("npu"))
    total(group)
    backend.set_watchdog_status(2)
    if rank == 1:
        time.sleep(2.5)
    assert total(group) == 3
    backend.clear_workmeta_list()
    backend.set_watchdog_status(1)
    assert total(group) == 3
    with pytest.raises(ValueError, match="set_watchdog_status: 1"):
        backend.set_watchdog_status(5)


def test_a_group_that_the_watchdog_leaves_alone(two):
    two.run(unwatched)


def uneven_methods(rank, world):
    backend = dist.group.WORLD._get_backend(torch.device("npu"))
    whole, own = torch.empty(3, device="npu"), torch.full((1 + rank,), float(rank), device="npu")
    backend.all_gather_into_tensor_uneven(whole, own, [1, 2]).wait()
    assert whole.tolist() == [0, 1, 1]
    backend.reduce_scatter_tensor_uneven(own, torch.arange(3.0, device="npu"), [1, 2]).wait()
    assert own.tolist() == ([0], [2, 4])[rank]
    received = torch.empty(3, device="npu")
    backend.alltoallvc(received, torch.arange(3.0, device="npu") + 10 * rank, [1, 2, 2, 1]).wait()
    assert received.tolist() == ([0, 10, 11], [1, 2, 12])[rank]
    with pytest.raises(RuntimeError, match="split sizes"):   # a ValueError, too
        backend.all_gather_into_tensor_uneven(whole, own, [1, 1])
    ones, twos = torch.ones(2, device="npu"), torch.full((2,), 2.0, device="npu")
    backend._group_start()
    dist.all_reduce(ones)
    dist.all_reduce(twos)
    backend._group_end()
    assert ones.tolist() == [2, 2] and twos.tolist() == [4, 4]
    with pytest.raises(ValueError, match="1 ranks, but 0 choices"):
        backend._set_switch_nic_comm(rank, 1, [0], [])


def test_more_published_methods(two):
    two.run(uneven_methods)


def reinitialized(rank, world):
    import torch_npu

    assert torch_npu.distributed.reinit_process_group() is dist.group.WORLD
    assert torch_npu.distributed.reinit_process_group(rebuild_link=False) is None
    with pytest.raises(KeyError, match="there is no group 5"):
        torch_npu.distributed.reinit_process_group(5)
    assert total() == 3


def test_reinit_returns_the_group(two):
    two.run(reinitialized)


def published_methods(rank, world):
    group = dist.group.WORLD._get_backend(torch.device("npu"))
    assert total() == 3 and group.get_hccl_comm(rank) != 0
    ids = group.get_coll_stream_id(torch.device("npu", rank)), group._get_stream_id(), group.get_p2p_stream_id("npu", 1 - rank, 1)
    assert len(set(ids)) == 1 and ids[0] > 0
    fresh = dist.new_group([0, 1])
    assert fresh._get_backend(torch.device("npu"))._get_stream_id(True, 1 - rank) == -1   # no message has been sent
    with pytest.raises(RuntimeError, match="rank -1"):
        group._get_stream_id(True)
    dist.destroy_process_group(fresh)
    sent, received = torch.full((2,), float(rank), device="npu"), torch.empty(2, device="npu")
    group.batch_isend_irecv(["isend", "irecv"], [sent, received], [1 - rank] * 2).wait()
    assert received.tolist() == [1 - rank] * 2
    with pytest.raises(ValueError, match="'send' is neither isend nor irecv"):
        group.batch_isend_irecv(["send"], [sent], [1])
    (dist.send if rank == 0 else dist.recv)(sent, 1 - rank)
    assert group.get_p2p_stream_id("npu", 1 - rank, 0) != ids[0]
    torch.npu.synchronize()   # a message in flight would fail with its communicator, as it should
    for name in ("_window_register_and_exchange", "_get_window_mem"):
        with pytest.raises(NotImplementedError, match=f"{name}: memory of other ranks is not mapped"):
            getattr(group, name)(1024, [0, 1])
    for name in ("register_mem_pool", "deregister_mem_pool"):
        with pytest.raises(NotImplementedError, match="which take"):
            getattr(group, name)(None)
    group._delete_tcpstore_key()
    group.abort_hccl_comm("reinit")
    assert total() == 3
    group.resume_hccl_comm(rank)
    assert total() == 3


def test_published_methods(two):
    two.run(published_methods)


def broadcast_of_the_published_module(rank, world):
    from torch_npu._C._distributed_c10d import _broadcast_coalesced, _compute_bucket_assignment_by_size

    tensors = [torch.full((3,), float(rank), device="npu"), torch.full((2, 2), rank + 5.0, device="npu")]
    _broadcast_coalesced(dist.group.WORLD, tensors, 256, 1)
    assert [tensor.unique().tolist() for tensor in tensors] == [[1], [6]]
    assert _compute_bucket_assignment_by_size(tensors, [12, 1000])[0] == [[0], [1]]


def test_functions_of_the_published_module(two):
    two.run(broadcast_of_the_published_module)


def test_parallel_store():
    from torch_npu.distributed import ParallelStore

    port = free_port()
    server = ParallelStore("127.0.0.1", port, 1, False, -1, True, False, timedelta(seconds=30))
    client = ParallelStore("127.0.0.1", port, 1, False, -1, False, wait_workers=False)
    client.set("key", "value")
    assert server.get("key") == b"value" and server.port == port and isinstance(server, dist.TCPStore)
    assert ParallelStore is sys.modules["torch_npu._C._distributed_c10d"].ParallelStore
