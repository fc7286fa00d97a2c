"""The flight recorder, and PyTorch's own analyser on what it writes."""
import pickle
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

from torch_npu.distributed import flight_recorder


def record(rank, world, path):
    import json

    from torch_npu import _C

    trace = _C._distributed_c10d
    trace._reset_hccl_trace()
    x = torch.ones(3, 4, device="npu")
    dist.all_reduce(x)
    dist.all_gather_into_tensor(torch.empty(3 * world, 4, device="npu"), x)
    if rank == 0:
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(x, 0)
    dist.barrier()
    entries = pickle.loads(trace._dump_hccl_trace())["entries"]
    names = [entry["profiling_name"] for entry in entries]
    middle = {0: ["hccl:send 0->1"], 1: ["hccl:recv 1<-0"]}.get(rank, [])
    assert names == ["hccl:all_reduce", "hccl:_all_gather_base", *middle, "hccl:barrier"]
    assert entries[0]["input_sizes"] == entries[0]["output_sizes"] == [[3, 4]]
    assert entries[1]["output_sizes"] == [[3 * world, 4]] and entries[1]["input_dtypes"] == ["Float"]
    assert all(entry["state"] == "completed" for entry in entries)
    assert json.loads(trace._dump_hccl_trace_json())["entries"][0]["profiling_name"] == "hccl:all_reduce"
    with open(f"{path}{rank}.json", "wb") as file:
        file.write(trace._dump_hccl_trace_json())


def analyse(folder):
    """What torchfrtrace makes of the dumps trace_0, trace_1 ... of a folder: its data base."""
    out = folder / "analysed"
    done = subprocess.run([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(folder), "-p", "trace_", "-o", str(out)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout
    with open(out, "rb") as file:
        _, database = pickle.load(file)
    return database, done.stdout


def test_the_analyser_reads_it(two, tmp_path):
    two.run(record, str(tmp_path / "trace_"))
    done = subprocess.run([sys.executable, "-m", "torch_npu.distributed.flight_recorder", str(tmp_path), "--prefix", "trace_"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200)
    assert done.returncode == 0 and (tmp_path / "trace_1").stat().st_mode & 0o777 == 0o600, done.stdout
    for dump in tmp_path.glob("*.json"):
        dump.unlink()   # the analyser takes every file of the folder
    data, output = analyse(tmp_path)
    names = [collective.collective_name for collective in data.collectives]
    assert names[:2] == ["hccl:all_reduce", "hccl:_all_gather_base"], output
    assert all(collective.pass_check for collective in data.collectives), output


@pytest.mark.parametrize("text", ["[", "[]", "{}", '{"version": 1, "entries": 5}', '{"version": 1, "entries": [{}]}'])
def test_another_file_is_told(text, tmp_path):
    (tmp_path / "trace_0.json").write_text(text)
    with pytest.raises(ValueError, match="trace_0.json is not"):
        flight_recorder.export(tmp_path, "trace_")


def test_without_a_place_of_its_own_a_dump_lies_in_a_private_folder(python):
    done = python("""if True:
        import datetime, os, stat, time, torch, torch.distributed as dist
        folder = f"/tmp/torch_npu-{os.geteuid()}"
        dump, began = f"{folder}/hccl_trace_rank_0.json", time.time()
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1, timeout=datetime.timedelta(milliseconds=200))
        dist.all_reduce(torch.ones(4, device="npu"))   # waits for the ones, which are late
        while not os.path.exists(dump) or os.stat(dump).st_mtime < began - 1:
            assert time.time() - began < 60
            time.sleep(0.1)
        print(*(oct(stat.S_IMODE(os.lstat(path).st_mode)) for path in (folder, dump)), flush=True)
        os._exit(0)
        """, SOFTCANN_FAULT="task.aclnnInplaceFillScalar:delay_us=3000000", SOFTCANN_INLINE_NS=0,
        TORCH_HCCL_DEBUG_INFO_TEMP_FILE=None, TORCH_FR_DUMP_TEMP_FILE=None)
    assert done.stdout.split() == ["0o700", "0o600"], done.stdout + done.stderr


def ask_by_pipe(rank, world, start):
    import json
    import os
    import stat
    import time

    from torch_npu import _options

    dist.all_reduce(torch.ones(4, device="npu"))
    torch.npu.synchronize()
    path, dump = f"{start}{rank}.pipe", f"{_options.get('hccl_debug_info_file')}{rank}.json"
    if rank == 1:
        with open(path, "w") as file:
            file.write("somebody's")
    os.environ["TORCH_HCCL_DEBUG_INFO_PIPE_FILE"] = start
    try:
        dist.new_group()
        dist.new_group()   # the pipe is there already
    finally:
        del os.environ["TORCH_HCCL_DEBUG_INFO_PIPE_FILE"]
    if rank == 1:
        with open(path) as file:
            assert file.read() == "somebody's"
        return
    status = os.stat(path)
    assert stat.S_ISFIFO(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o600
    for _ in range(2):
        with open(path, "w") as pipe:
            pipe.write("now\n")
        until = time.monotonic() + 60
        while not os.path.exists(dump) and time.monotonic() < until:
            time.sleep(0.02)
        with open(dump) as file:
            assert "hccl:all_reduce" in [entry["profiling_name"] for entry in json.load(file)["entries"]]
        os.unlink(dump)


def test_written_when_a_pipe_asks(two, tmp_path):
    two.run(ask_by_pipe, str(tmp_path / "pipe_"))


def test_status_files(python, tmp_path):
    done = python(f"""if True:
        import glob, json, os, stat, time, torch, torch.distributed as dist
        torch.npu.set_device(1)
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)

        def status(wanted):
            until = time.monotonic() + 60
            while time.monotonic() < until:
                for path in glob.glob("{tmp_path}/*.log"):
                    with open(path) as file:
                        found = json.load(file)
                    if wanted(found):
                        return path, found
                time.sleep(0.05)
            raise AssertionError(found)

        x = torch.ones(4, device="npu")
        group = dist.new_group([0])
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        dist.all_gather_into_tensor(torch.empty_like(x), x, group=group)
        path, found = status(lambda found: len(found["last_comm_op"]) == 2 and found["last_comm_op"][1]["status"] == "end")
        name = os.path.basename(path).split("_")
        assert name[:6] == ["torch", "hccl", "status-0", "somewhere", "1", "1"], name
        assert name[6] == str(os.getpid()) and len(glob.glob("{tmp_path}/*")) == 1
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert abs(found.pop("global_pg_end_time") / 1000 - time.time()) < 60
        first, second = found.pop("last_comm_op")
        assert found == {{"exception_message": "", "is_master": True}}
        assert first == {{"comm_ids": "all", "op_type": "BROADCAST", "pg_id": first["pg_id"], "seq": 2, "status": "end"}}
        assert second == {{"comm_ids": "0 ", "op_type": "_ALLGATHER_BASE", "pg_id": second["pg_id"], "seq": 1, "status": "end"}}
        assert first["pg_id"] != second["pg_id"]
        """, TORCH_HCCL_STATUS_SAVE_ENABLE=1, TORCH_HCCL_STATUS_SAVE_INTERVAL=1, TORCH_HCCL_STATUS_SAVE_PATH=tmp_path,
        MASTER_ADDR="somewhere", WORLD_SIZE=1, SOFTCANN_DEVICE_COUNT=2)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_status_file_tells_of_a_failure(python, tmp_path):
    done = python(f"""if True:
        import datetime, glob, json, os, time, torch, torch.distributed as dist
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1, timeout=datetime.timedelta(milliseconds=200))
        dist.all_reduce(torch.ones(4, device="npu"))   # waits for the ones, which are late
        began, found = time.monotonic(), dict(exception_message="")
        while not found["exception_message"]:
            assert time.monotonic() - began < 60
            time.sleep(0.1)
            for path in glob.glob("{tmp_path}/*.log"):
                with open(path) as file:
                    found = json.load(file)
        assert "all_reduce" in found["exception_message"] and "200 ms" in found["exception_message"], found
        assert found["last_comm_op"][0]["status"] == "start"
        print("told", flush=True)
        os._exit(0)
        """, SOFTCANN_FAULT="task.aclnnInplaceFillScalar:delay_us=3000000", SOFTCANN_INLINE_NS=0, TORCH_HCCL_STATUS_SAVE_ENABLE=1,
        TORCH_HCCL_STATUS_SAVE_INTERVAL=3600, TORCH_HCCL_STATUS_SAVE_PATH=tmp_path, TORCH_HCCL_DEBUG_INFO_TEMP_FILE=tmp_path / "trace_")
    assert "told" in done.stdout, done.stdout + done.stderr
