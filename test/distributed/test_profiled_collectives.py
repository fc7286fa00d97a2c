"""What a profile tells of collectives: their group, bytes and links, in PyTorch's own records and in Ascend's files."""
import decimal
import json
import os
import sqlite3
import tempfile

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.skipif(torch.__version__ < (2, 12), reason="torch has no place for another device's activities before 2.12")

ELEMENTS = 1 << 16


def told(rank, world):
    """What PyTorch's own profiler tells of a collective and a message."""
    x = torch.ones(ELEMENTS, device="npu")
    with torch.profiler.profile(record_shapes=True) as profiled:
        dist.all_reduce(x)
        dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
    with tempfile.TemporaryDirectory() as folder:
        profiled.export_chrome_trace(os.path.join(folder, "trace.json"))
        with open(os.path.join(folder, "trace.json")) as file:
            events = json.load(file)["traceEvents"]
    names = ("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size", "Process Group Ranks", "Dst Rank", "Src Rank")
    records = [event["args"] for event in events if event["name"] == "record_param_comms"]
    kernels = {event["args"]["External id"]: event["name"] for event in events if event.get("cat") == "kernel"}
    return [(kernels.get(record["External id"]), *(record.get(name) for name in names)) for record in records]


def test_records_of_collectives(two):
    first, second = two.run(told)
    reduced = ("HcclAllReduce", "allreduce", ELEMENTS, ELEMENTS, "Float", 2, "[0, 1]", None, None)
    waited = (None, "wait", 0, 0, "Byte", 2, "[0, 1]", None, None)
    assert first == [reduced, waited, ("HcclSend", "send", ELEMENTS, 0, "Float", 2, "[0, 1]", 1, None), waited]
    assert second == [reduced, waited, ("HcclRecv", "recv", 0, ELEMENTS, "Float", 2, "[0, 1]", None, 0), waited]


def named(rank, world):
    """What collectives are called in records."""
    x, both = torch.ones(4, device="npu"), torch.ones(4 * world, device="npu")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiled:
        for call in (lambda: dist.all_reduce(x), lambda: dist.all_gather_into_tensor(both, x), lambda: dist.reduce_scatter_tensor(x, both),
                     lambda: dist.all_gather(list(both.chunk(world)), x), lambda: dist.broadcast(x, 0)):
            call()
    with tempfile.TemporaryDirectory() as folder:
        profiled.export_chrome_trace(os.path.join(folder, "trace.json"))
        with open(os.path.join(folder, "trace.json")) as file:
            return [event["args"]["Collective name"] for event in json.load(file)["traceEvents"] if event["name"] == "record_param_comms"]


def test_names_are_those_that_readers_of_pytorchs_profiles_know(two):
    expected = ["allreduce", "_allgather_base", "_reduce_scatter_base", "all_gather", "broadcast"]
    for found in two.run(named):
        assert found[::2] == expected and found[1::2] == ["wait"] * len(expected)


def ranges(rank, world):
    """The backend's ranges with the shapes of what goes in, and the groups' descriptions."""
    own = dist.new_group([rank], use_local_synchronization=True, group_desc="alone")
    x = torch.ones(8, device="npu")
    with torch.profiler.profile(record_shapes=True) as profiled:
        dist.all_reduce(x)
        dist.broadcast(x[:2], rank, group=own)
        dist.send(x[:4], 1) if rank == 0 else dist.recv(x[:4], 0)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x[:3], 1 - rank), dist.P2POp(dist.irecv, x[3:6], 1 - rank)]):
            work.wait()
    with tempfile.TemporaryDirectory() as folder:
        profiled.export_chrome_trace(os.path.join(folder, "trace.json"))
        with open(os.path.join(folder, "trace.json")) as file:
            told = [event["args"]["Process Group Description"] for event in json.load(file)["traceEvents"]
                    if event["name"] == "record_param_comms" and event["args"]["Collective name"] != "wait"]
    found = [event for event in profiled.events() if event.name.startswith("hccl:")]
    assert all(event.is_async for event in found)
    return [(event.name, event.input_shapes) for event in found], told


def test_ranges_and_descriptions(two):
    first, second = two.run(ranges)
    assert first[0] == [("hccl:all_reduce", [[8]]), ("hccl:broadcast", [[2]]), ("hccl:send", [[4]]), ("hccl:coalesced", [[3]])]
    assert second[0] == [("hccl:all_reduce", [[8]]), ("hccl:broadcast", [[2]]), ("hccl:recv", [[4]]), ("hccl:coalesced", [[3]])]
    assert first[1] == second[1] == ["default_pg", "alone", "default_pg", "default_pg"]


def batched(rank, world):
    """The records of a batch that holds only collectives, which have theirs already."""
    x = torch.ones(2, ELEMENTS, device="npu")
    with torch.profiler.profile() as profiled:
        with dist._coalescing_manager(device=torch.device("npu", rank)):
            dist.all_reduce(x[0])
            dist.all_reduce(x[1])
    return sum(event.name == "record_param_comms" for event in profiled.events())


def test_a_batch_has_no_record_of_nothing(two):
    assert two.run(batched) == [2, 2]  # PyTorch makes one operation of both, and waits for it


def profile(rank, world, folder):
    from torch_npu import profiler

    x = torch.ones(ELEMENTS, device="npu")
    gathered = torch.empty(world * ELEMENTS, device="npu")
    own = dist.new_group([rank], use_local_synchronization=True, group_desc="alone")
    config = profiler._ExperimentalConfig(export_type="db")
    with profiler.profile(record_shapes=True, experimental_config=config, on_trace_ready=profiler.tensorboard_trace_handler(folder, f"rank{rank}")) as profiled:
        for _ in range(2):
            dist.all_reduce(x)
        dist.all_gather_into_tensor(gathered, x.half().float())
        dist.all_reduce(x, group=own)
        if rank == 0:
            dist.send(x, 1)
        elif rank == 1:
            dist.recv(x, 0)
        with dist._coalescing_manager(device=torch.device("npu", rank)):
            other = (rank + 1) % world
            dist.isend(x[:8], other)
            dist.irecv(x[8:16], other)
    return sum(event.name == "record_param_comms" for event in profiled.events())


def load(folder, rank, name):
    folders = [name for name in os.listdir(folder) if name.startswith(f"rank{rank}_")]
    assert len(folders) == 1
    path = os.path.join(folder, folders[0], *name)
    with open(path) as file:
        return json.load(file)


def test_communication_files(two, tmp_path):
    assert two.run(profile, str(tmp_path)) == [12, 12]  # six calls, each waited for
    size = 4 * ELEMENTS / 1e6
    for rank in (0, 1):
        groups = load(tmp_path, rank, ["profiler_metadata.json"])["parallel_group_info"]
        assert {(group["group_name"], tuple(group["global_ranks"])) for group in groups.values()} >= {("default_pg", (0, 1)), ("alone", (rank,))}
        times = load(tmp_path, rank, ["ASCEND_PROFILER_OUTPUT", "communication.json"])["step"]
        total = times["collective"]["Total Op Info"]["Communication Bandwidth Info"]["SDMA"]
        assert total["Transit Size(MB)"] == pytest.approx(5 * size)  # two all_reduce, an all_gather of twice that, one alone
        names = [name.partition("__")[0] for name in times["collective"] if "@" in name]
        assert sorted(names) == ["hcom_allGather", "hcom_allReduce", "hcom_allReduce", "hcom_allReduce"]
        one = next(value for name, value in times["collective"].items() if name.startswith("hcom_allGather"))
        assert one["Communication Time Info"]["Elapse Time(ms)"] > 0
        messages = {name.partition("__")[0] for name in times["p2p"] if "@" in name}
        assert messages == {"hcom_send" if rank == 0 else "hcom_receive", "hcom_batchSendRecv"}
        links = load(tmp_path, rank, ["ASCEND_PROFILER_OUTPUT", "communication_matrix.json"])["step"]
        for name, link in links["collective"].items():
            if len(link) > 1:  # of both ranks
                assert link[f"{rank}-{1 - rank}"]["Transit Size(MB)"] == pytest.approx(size), name


def query(folder, rank, name, text):
    found, = (other for other in os.listdir(folder) if other.startswith(f"rank{rank}_"))
    connection = sqlite3.connect(os.path.join(folder, found, "ASCEND_PROFILER_OUTPUT", name))
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.close()


def test_databases_have_what_the_files_have(two, tmp_path):
    two.run(profile, str(tmp_path))
    for rank in (0, 1):
        step = load(tmp_path, rank, ["ASCEND_PROFILER_OUTPUT", "communication.json"])["step"]
        told = {name.partition("@")[0]: (group, value) for group, kind in step.items() for name, value in kind.items() if "@" in name}
        times = query(tmp_path, rank, "analysis.db", "SELECT hccl_op_name, type, elapse_time, start_timestamp FROM CommAnalyzerTime")
        assert {name for name, *_ in times} == set(told) and len(times) == len(told) == 6
        for name, kind, elapsed, begin in times:
            time = told[name][1]["Communication Time Info"]
            assert (kind, elapsed, begin) == (told[name][0], time["Elapse Time(ms)"], time["Start Timestamp(us)"])
        links = query(tmp_path, rank, "analysis.db", "SELECT SUM(transit_size) FROM CommAnalyzerMatrix WHERE src_rank <> dst_rank "
                      "AND type = 'collective'")
        assert links[0][0] == pytest.approx(3 * 4 * ELEMENTS / 1e6)
        own = f"ascend_pytorch_profiler_{rank}.db"
        found = query(tmp_path, rank, own, "SELECT name.value, kind.value, type.name, count, deviceId FROM COMMUNICATION_OP "
                      "JOIN STRING_IDS AS name ON name.id = opName JOIN STRING_IDS AS kind ON kind.id = opType "
                      "JOIN ENUM_HCCL_DATA_TYPE AS type ON type.id = dataType")
        assert {name for name, *_ in found} == set(told)
        assert {row[1:] for row in found if row[1] == "hcom_allGather_"} == {("hcom_allGather_", "FP32", 2 * ELEMENTS, rank)}
        assert query(tmp_path, rank, own, "SELECT rankId, deviceId FROM RANK_DEVICE_MAP") == [(rank, rank)]
        groups = load(tmp_path, rank, ["profiler_metadata.json"])["parallel_group_info"]
        assert json.loads(query(tmp_path, rank, own, "SELECT value FROM META_DATA WHERE name = 'parallel_group_info'")[0][0]) == groups


def test_timeline_has_tracks_of_groups(two, tmp_path):
    two.run(profile, str(tmp_path))
    events = load(tmp_path, 0, ["ASCEND_PROFILER_OUTPUT", "trace_view.json"])
    processes = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    tracks = [event for event in events if event["name"] == "thread_name" and event["pid"] == processes["Communication"]]
    assert len(tracks) == 2 and all("Communication" in track["args"]["name"] for track in tracks)
    spans = [event for event in events if event["pid"] == processes["Overlap Analysis"] and event["ph"] == "X"]
    time = {name: sum(span["dur"] for span in spans if span["name"] == name) for name in
            ("Computing", "Communication(Not Overlapped)", "Free")}
    begin = decimal.Decimal(spans[0]["ts"])   # a float has no room for Unix time with so many digits
    offsets = [(float(decimal.Decimal(span["ts"]) - begin), span["dur"]) for span in spans]
    first, last = min(offset for offset, _ in offsets), max(offset + duration for offset, duration in offsets)
    assert all(value > 0 for value in time.values())
    assert sum(time.values()) == pytest.approx(last - first, abs=0.1)
