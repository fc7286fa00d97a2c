"""torch_npu.profiler: Ascend's arguments, and the files that Ascend's tools read."""
import csv
import gc
import json
import os
import sqlite3
import threading
import time

import pytest
import torch

import torch_npu
from torch_npu import profiler
from torch_npu.profiler import _columns, dynamic_profile

pytestmark = pytest.mark.skipif(torch.__version__ < (2, 12), reason="torch has no place for another device's activities before 2.12")


def rows(folder, name):
    with open(os.path.join(folder, name), newline="") as file:
        return list(csv.DictReader(file))


def only(folder):
    name, = os.listdir(folder)
    assert name.endswith("_ascend_pt")
    return os.path.join(folder, name)


def query(folder, name, text):
    connection = sqlite3.connect(os.path.join(folder, name))
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.close()


def work():
    x = torch.ones(64, 64, device="npu")
    return (x @ x).relu().sum().item()


def test_schedule_is_in_the_published_order():
    actions = profiler.schedule(1, 2, 1)
    names = [actions(i).name for i in range(5)]
    assert names == ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE"]
    assert profiler.schedule(2, 1, skip_first_wait=1)(0).name == "RECORD_AND_SAVE"
    with_defaults = profiler.schedule(wait=-1, active=0, warmup="a")   # a profile must not stop a program
    assert (with_defaults.wait, with_defaults.active, with_defaults.warmup) == (0, 1, 0)
    assert with_defaults(3).name == "RECORD_AND_SAVE"


def test_configuration():
    config = profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1)
    assert config._aic_metrics == profiler.AiCMetrics.PipeUtilization and config._export_type == ["text"]
    assert profiler._ExperimentalConfig()._aic_metrics == profiler.AiCMetrics.AiCoreNone


def test_impossible_settings_become_defaults(caplog):
    config = profiler._ExperimentalConfig(profiler_level="Level9", l2_cache=3, export_type=["text", "x"], host_sys="cpu",
                                          gc_detect_threshold=-1, mstx_domain_include=3, data_simplification=None)
    assert config._profiler_level == "Level0" and config._l2_cache is False and config._export_type == ["text"]
    assert config._host_sys == [] and config._gc_detect_threshold is None and config._mstx_domain_include == []
    assert config._data_simplification is True
    assert profiler._ExperimentalConfig(profiler_level="Level1", aic_metrics="x")._aic_metrics == "ACL_AICORE_PIPE_UTILIZATION"
    assert "profiler_level='Level9' is not possible, 'Level0' is taken" in caplog.text
    with profiler.profile(schedule=3, on_trace_ready=3, activities=[3], experimental_config=3) as profiled:
        torch.ones(3, device="npu") + 1
    assert any(event.key == "aten::add" for event in profiled.key_averages())


def test_files(tmp_path):
    config = profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1, export_type=["text", "db"])
    with profiler.profile(schedule=profiler.schedule(0, 2, 1), record_shapes=True, profile_memory=True, experimental_config=config,
                          on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "worker")) as profiled:
        for _ in range(3):
            work()
            profiled.step()
    folder = only(tmp_path)
    assert os.path.basename(folder).startswith("worker_")
    with open(os.path.join(folder, "profiler_info.json")) as file:
        assert json.load(file)["torch_npu_version"] == torch_npu.__version__
    output = os.path.join(folder, "ASCEND_PROFILER_OUTPUT")
    kernels = rows(output, "kernel_details.csv")
    assert tuple(kernels[0]) == _columns.KERNEL_DETAILS + _columns.PIPE_UTILIZATION
    products = [row for row in kernels if row["Name"] == "aclnnMm"]
    assert [row["Step Id"] for row in products] == ["1", "2"] and {row["Accelerator Core"] for row in products} == {"AI_CORE"}
    assert products[0]["Input Shapes"] == "64,64;64,64" and products[0]["Type"] == "Mm" and products[0]["aic_mac_ratio"] == "N/A"
    assert float(products[0]["Duration(us)"]) > 0

    statistic = {row["OP Type"]: row for row in rows(output, "op_statistic.csv")}
    assert statistic["Mm"]["Count"] == "2"
    total = sum(float(row["Duration(us)"]) for row in products)
    assert float(statistic["Mm"]["Total Time(us)"]) == pytest.approx(total, abs=0.01)
    assert sum(float(row["Ratio(%)"]) for row in statistic.values()) == pytest.approx(100, abs=0.1)

    operators = [row for row in rows(output, "operator_details.csv") if row["Name"] in ("aten::mm", "aten::matmul")]
    assert len(operators) == 4
    for row in operators:
        inner = row["Name"] == "aten::mm"
        assert (float(row["Device Self Duration(us)"]) > 0) == inner and float(row["Device Total Duration(us)"]) > 0
        assert float(row["Host Self Duration(us)"]) <= float(row["Host Total Duration(us)"])

    steps = rows(output, "step_trace_time.csv")
    assert [row["Step"] for row in steps] == ["1", "2"]
    for row in steps:
        assert 0 < float(row["Computing"]) <= float(row["Stage"]) and float(row["Communication"]) == 0
        assert float(row["Computing"]) + float(row["Free"]) == pytest.approx(float(row["Stage"]), abs=0.01)
    assert any(row["API Name"] == "aclnnMm" and row["Count"] == "2" for row in rows(output, "api_statistic.csv"))
    memory = rows(output, "memory_record.csv")
    assert tuple(memory[0]) == _columns.MEMORY_RECORD and max(float(row["Total Allocated(MB)"]) for row in memory) > 0
    blocks = rows(output, "operator_memory.csv")
    assert any(row["Name"] == "aten::empty" and float(row["Size(KB)"]) >= 16 for row in blocks)
    with open(os.path.join(output, "trace_view.json")) as file:
        view = json.load(file)
    assert any(event.get("name") == "aclnnMm" for event in view)
    found = query(output, "ascend_pytorch_profiler.db", """SELECT kind.value, shapes.value, (TASK.endNs - TASK.startNs) / 1000.0, call.value
        FROM COMPUTE_TASK_INFO AS info JOIN TASK USING (globalTaskId) JOIN CANN_API USING (connectionId)
        JOIN STRING_IDS AS name ON name.id = info.name JOIN STRING_IDS AS kind ON kind.id = info.opType
        JOIN STRING_IDS AS shapes ON shapes.id = info.inputShapes JOIN STRING_IDS AS call ON call.id = CANN_API.name
        WHERE name.value = 'aclnnMm' ORDER BY TASK.startNs""")
    assert [row[:2] + row[3:] for row in found] == [("Mm", "64,64;64,64", "aclnnMm")] * 2
    assert [row[2] for row in found] == pytest.approx([float(row["Duration(us)"]) for row in products], abs=0.002)
    assert not os.path.exists(os.path.join(folder, "FRAMEWORK"))


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory):
    """The output of two steps at Level1."""
    folder, x = tmp_path_factory.mktemp("two_steps"), torch.ones(2, 3, 4, 5, device="npu")
    config = profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1, export_type=["text", "db"])
    before = time.time()
    with profiler.profile(schedule=profiler.schedule(0, 2, 0, repeat=1), experimental_config=config,
                          on_trace_ready=profiler.tensorboard_trace_handler(str(folder))) as profiled:
        for _ in range(2):
            work()
            torch.cat([x, x.half().float()]).add_(torch.ones((), dtype=torch.int64, device="npu"))
            torch.npu.synchronize()
            profiled.step()
    return os.path.join(only(folder), "ASCEND_PROFILER_OUTPUT"), before, time.time()


def test_kernels_have_their_own_operands(two_steps):
    """Shapes, dtypes and formats of what the kernel reads and writes, as CANN is given them, from Level1 on."""
    output, _, _ = two_steps
    columns = [f"{side} {what}" for side in ("Input", "Output") for what in ("Shapes", "Data Types", "Formats")]
    found = {row["Name"]: [row[column] for column in columns] for row in rows(output, "kernel_details.csv")}
    assert found["aclnnMm"] == ["64,64;64,64", "FLOAT;FLOAT", "ND;ND", "64,64", "FLOAT", "ND"]
    assert found["aclnnCat"] == ["2,3,4,5;2,3,4,5", "FLOAT;FLOAT", "NCHW;NCHW", "4,3,4,5", "FLOAT", "NCHW"]
    assert found["aclnnAdd"] == ["4,3,4,5;", "FLOAT;INT64", "NCHW;ND", "4,3,4,5", "FLOAT", "NCHW"]
    in_database = query(output, "ascend_pytorch_profiler.db", """SELECT shapes.value, formats.value FROM COMPUTE_TASK_INFO AS info
        JOIN STRING_IDS AS name ON name.id = info.name JOIN STRING_IDS AS shapes ON shapes.id = info.outputShapes
        JOIN STRING_IDS AS formats ON formats.id = info.outputFormats WHERE name.value = 'aclnnCat'""")
    assert in_database == [("4,3,4,5", "NCHW")] * 2


def test_operands_are_not_recorded_below_level1(tmp_path):
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path))):
        work()
    row = next(row for row in rows(os.path.join(only(tmp_path), "ASCEND_PROFILER_OUTPUT"), "kernel_details.csv") if row["Name"] == "aclnnMm")
    assert row["Input Shapes"] == row["Output Shapes"] == "N/A"


def test_times_are_unix_and_the_same_in_tables_and_trace(two_steps):
    output, before, after = two_steps
    kernels = rows(output, "kernel_details.csv")
    with open(os.path.join(output, "trace_view.json")) as file:
        view = json.load(file)
    traced = [event for event in view if event.get("ph") == "X" and event.get("args", {}).get("Task Type", "SDMA_SQE") != "SDMA_SQE"]
    assert sorted((row["Name"], row["Start Time(us)"].strip(), float(row["Duration(us)"])) for row in kernels) == sorted(
        (event["name"], event["ts"], pytest.approx(event["dur"], abs=0.0006)) for event in traced)
    times = [float(row["Start Time(us)"]) / 1e6 for row in kernels]
    assert before <= min(times) <= max(times) <= after


def test_the_parts_of_a_step_are_the_step(two_steps):
    """Of its kernels, and of the steps the whole."""
    output, _, _ = two_steps
    steps, kernels = rows(output, "step_trace_time.csv"), rows(output, "kernel_details.csv")
    with open(os.path.join(output, "trace_view.json")) as file:
        view = json.load(file)
    annotated = {event["name"]: event for event in view if event.get("name", "").startswith("ProfilerStep#") and event["ph"] == "X"}
    assert len(steps) == 2
    for row in steps:
        own = [float(kernel["Duration(us)"]) for kernel in kernels if kernel["Step Id"] == row["Step"]]
        assert sum(own) == pytest.approx(float(row["Computing"]), abs=0.001 * len(own))   # one stream: no two at a time
        parts = float(row["Computing"]) + float(row["Communication(Not Overlapped)"]) + float(row["Free"])
        assert parts == pytest.approx(float(row["Stage"]) + float(row["Bubble"]), abs=0.002)
        assert float(row["Stage"]) == pytest.approx(annotated[f"ProfilerStep#{row['Step']}"]["dur"], rel=0.2, abs=200)


def test_what_the_program_and_its_environment_told_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HCCL_ALGO", "ring")
    text = 'a "b" \\ \n \x01 ü'
    config = profiler._ExperimentalConfig(export_type=["text", "db"])
    handler = profiler.tensorboard_trace_handler(str(tmp_path))
    with profiler.profile(on_trace_ready=handler, experimental_config=config, record_shapes=True,
                          custom_trace_id_callback=lambda: "run 7") as profiled:
        work()
        profiled.add_metadata("text", text)
        profiled.add_metadata_json("table", json.dumps({"a": [1, None, text]}))
        with pytest.warns(RuntimeWarning):
            profiled.add_metadata_json("broken", "{")
        with pytest.warns(RuntimeWarning):
            profiled.add_metadata("number", 3)
    folder = only(tmp_path)
    with open(os.path.join(folder, "profiler_metadata.json"), encoding="utf-8") as file:
        metadata = json.load(file)
    assert metadata["text"] == text and metadata["table"] == {"a": [1, None, text]} and metadata["trace_id"] == "run 7"
    assert metadata["ENV_VARIABLES"]["HCCL_ALGO"] == "ring" and metadata["ENV_VARIABLES"]["HCCL_RDMA_TC"] == ""
    assert metadata.keys() == {"text", "table", "trace_id", "ENV_VARIABLES", "distributed_info", "parallel_group_info"}
    output = os.path.join(folder, "ASCEND_PROFILER_OUTPUT")
    stored = dict(query(output, "ascend_pytorch_profiler.db", "SELECT name, value FROM META_DATA"))
    assert {name: json.loads(value) for name, value in stored.items()} == metadata
    with open(os.path.join(folder, "profiler_info.json"), encoding="utf-8") as file:
        told = json.load(file)["config"]
    assert told["common_config"]["record_shapes"] is True and told["common_config"]["with_stack"] is False
    assert "ProfilerActivity.NPU" in told["common_config"]["activities"]
    assert told["experimental_config"]["_profiler_level"] == "Level0" and told["experimental_config"]["_export_type"] == ["text", "db"]


def test_garbage_collections(tmp_path):
    config = profiler._ExperimentalConfig(gc_detect_threshold=0, export_type=["text", "db"])
    before = list(gc.callbacks)
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)), experimental_config=config):
        begin = time.time_ns()
        gc.collect()
        end = time.time_ns()
        work()
    assert gc.callbacks == before
    output = os.path.join(only(tmp_path), "ASCEND_PROFILER_OUTPUT")
    records = query(output, "ascend_pytorch_profiler.db", "SELECT startNs, endNs, globalTid FROM GC_RECORD")
    found, = [record for record in records if begin <= record[0] <= record[1] <= end]
    assert found[2] == os.getpid() << 32 | threading.get_native_id()
    with open(os.path.join(output, "trace_view.json"), encoding="utf-8") as file:
        view = json.load(file)
    track, = {event["pid"] for event in view if event["name"] == "process_name" and event["args"]["name"] == "Python GC"}
    shown = [event for event in view if event["name"] == "GC"]
    assert {event["pid"] for event in shown} == {track} and len(shown) == len(records)
    assert any(begin - 1000 <= float(event["ts"]) * 1000 <= end for event in shown)


def test_garbage_collections_below_the_threshold_are_left_out(tmp_path):
    config = profiler._ExperimentalConfig(gc_detect_threshold=1e6, export_type=["text", "db"])
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)), experimental_config=config):
        gc.collect()
        work()
    output = os.path.join(only(tmp_path), "ASCEND_PROFILER_OUTPUT")
    assert not query(output, "ascend_pytorch_profiler.db", "SELECT 1 FROM sqlite_master WHERE name = 'GC_RECORD'")


def test_database_has_the_stacks(tmp_path):
    config = profiler._ExperimentalConfig(export_type=["db"])
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)), with_stack=True,
                          experimental_config=config):
        work()
    output = os.path.join(only(tmp_path), "ASCEND_PROFILER_OUTPUT")
    frames = query(output, "ascend_pytorch_profiler.db", """SELECT stack.value FROM PYTORCH_API AS api
        JOIN STRING_IDS AS name ON name.id = api.name JOIN PYTORCH_CALLCHAINS AS chain ON chain.id = api.callchainId
        JOIN STRING_IDS AS stack ON stack.id = chain.stack WHERE name.value = 'aten::mm' ORDER BY chain.stackDepth""")
    assert "test_ascend_profiler.py" in frames[0][0] and frames[0][0].endswith(": work")
    assert any(frame.endswith("test_database_has_the_stacks") for frame, in frames[1:])


def test_analyse_later(tmp_path):
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), analyse_flag=False)):
        work()
    folder = only(tmp_path)
    assert not os.path.exists(os.path.join(folder, "ASCEND_PROFILER_OUTPUT"))
    profiler.profiler.analyse(str(tmp_path))
    assert "Step Id" not in rows(os.path.join(folder, "ASCEND_PROFILER_OUTPUT"), "kernel_details.csv")[0]
    with pytest.warns(RuntimeWarning, match="nowhere"):
        profiler.profiler.analyse(str(tmp_path / "nowhere"))
    with pytest.warns(RuntimeWarning, match="excel"):
        profiler.profiler.analyse(str(tmp_path), export_type="excel")


def test_a_program_goes_on_where_its_profile_cannot(tmp_path, caplog):
    """As with the published profiler, which tells what is wrong and returns."""
    idle = profiler.profile()
    calls = {
        "stop": idle.stop, "export_chrome_trace": lambda: idle.export_chrome_trace(str(tmp_path / "x.json")),
        "export_stacks": lambda: idle.export_stacks(str(tmp_path / "x"), "self_cpu_time_total"), "add_metadata": lambda: idle.add_metadata(3, 4),
        "analyse": lambda: profiler.analyse(3), "init": lambda: profiler.dynamic_profile.init(3),
        "start": lambda: profiler.dynamic_profile.start(str(tmp_path / "no.json")),
    }
    for name, call in calls.items():
        with pytest.warns(RuntimeWarning, match=f"{name} did nothing"):
            assert call() is None
    assert profiler.profile(activities=[]).activities == profiler.profile().activities
    assert callable(profiler.tensorboard_trace_handler(3)) and callable(profiler.tensorboard_trace_handler(str(tmp_path), worker_name=3))
    assert "dir_name=3" in caplog.text and "worker_name=3" in caplog.text


def test_settings_are_read(tmp_path):
    config = profiler._ExperimentalConfig(export_type=["text", "db"], gc_detect_threshold=1.5, mstx=True)
    assert config.export_type == ["text", "db"] and config.gc_detect_threshold == 1.5 and config.with_gc and config.tx_enabled
    assert not profiler._ExperimentalConfig().with_gc and not profiler._ExperimentalConfig().tx_enabled


def test_a_file_starts_a_profile(tmp_path):
    dynamic_profile.init(str(tmp_path / "config"))
    path = tmp_path / "config" / "profiler_config.json"
    settings = json.loads(path.read_text())
    for _ in range(2):
        dynamic_profile.step()
    settings.update(prof_dir=str(tmp_path / "out"), analyse=True, active=2)
    path.write_text(json.dumps(settings))
    os.utime(path, ns=(1, 1))
    for _ in range(4):
        dynamic_profile.step()
        work()
    found = rows(os.path.join(only(tmp_path / "out"), "ASCEND_PROFILER_OUTPUT"), "op_statistic.csv")
    assert {row["OP Type"]: row["Count"] for row in found}["Mm"] == "2"
    path.write_text("[")
    os.utime(path, ns=(2, 2))
    dynamic_profile.step()  # logged, and the program goes on


def test_one_step_of_a_loop(tmp_path):
    from torch_npu.utils.profiler import Profile

    recorder = Profile(profile_type="TORCH", start_step=2, path=str(tmp_path))
    for _ in range(3):
        recorder.start()
        work()
        recorder.end()
    found = rows(os.path.join(only(tmp_path), "ASCEND_PROFILER_OUTPUT"), "op_statistic.csv")
    assert {row["OP Type"]: row["Count"] for row in found}["Mm"] == "1"
    idle = Profile()
    idle.start()
    idle.end()
    with pytest.raises(ValueError, match="NSYS"):
        Profile(profile_type="NSYS")


def test_dynamic_profile_goes_on_from_a_step(tmp_path):
    dynamic = torch_npu.profiler.dynamic_profile
    with pytest.raises(ValueError, match="cur_step"):
        dynamic.set_state({"step": 3})
    try:
        dynamic.set_state({"cur_step": 10})
        dynamic.init(str(tmp_path))
        dynamic.step()
        assert dynamic._watch.steps == 11
    finally:
        dynamic._watch = dynamic._Watch()


def test_child_threads_take_part():
    def run(joins):
        if joins:
            profiler.profile.enable_profiler_in_child_thread(record_shapes=True)
        torch.ones(3, device="npu").cos()
        if joins:
            profiler.profile.disable_profiler_in_child_thread()

    for joins in (False, True):
        with profiler.profile() as profiled:
            thread = threading.Thread(target=run, args=(joins,))
            thread.start()
            thread.join()
        assert ("aten::cos" in {event.key for event in profiled.key_averages()}) is joins


def test_a_thread_that_joined_leaves_the_first_one_as_it_was(capfd):
    def run():
        for _ in range(2):
            profiler.profile.enable_profiler_in_child_thread()
            torch.ones(3).sin()
            profiler.profile.disable_profiler_in_child_thread()
            torch.ones(3).tan()

    with profiler.profile() as profiled:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        torch.ones(3).cos()
    names = [event.name for event in profiled.events() if event.name in ("aten::sin", "aten::cos", "aten::tan")]
    assert sorted(names) == ["aten::cos", "aten::sin", "aten::sin"]
    assert "callback" not in capfd.readouterr().err  # PyTorch warns of those it finds on the wrong thread


def test_a_program_may_end_within_a_profile(python):
    result = python("import torch, torch_npu\n"
                    "profile = torch_npu.profiler.profile()\n"
                    "profile.start()\n"
                    "torch.ones(3, device='npu').sin()\n"
                    "raise KeyError('the end')")
    assert result.returncode == 1 and "the end" in result.stderr


def test_memory_timeline_by_the_published_names(tmp_path):
    with profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as profiled:
        torch.ones(300).sin()
    with pytest.warns(FutureWarning):
        profiled.export_memory_timeline(output_path=str(tmp_path / "timeline.json"), device="cpu")
    assert (tmp_path / "timeline.json").stat().st_size > 0


def test_child_threads_without_a_profile_are_told():
    with pytest.warns(UserWarning, match="no profile is running"):
        profiler.profile.enable_profiler_in_child_thread()
    with pytest.warns(UserWarning, match="in no profile"):
        profiler.profile.disable_profiler_in_child_thread()


def test_database_has_what_the_tables_have(tmp_path):
    before = time.time_ns()
    config = profiler._ExperimentalConfig(export_type="db")
    with profiler.profile(schedule=profiler.schedule(0, 2, 1), record_shapes=True, profile_memory=True, experimental_config=config,
                          on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "worker")) as profiled:
        for _ in range(3):
            work()
            torch.ones(3).npu()
            profiled.step()
    output = os.path.join(only(tmp_path), "ASCEND_PROFILER_OUTPUT")
    own = "ascend_pytorch_profiler.db"
    (begin, end), = query(output, own, "SELECT * FROM SESSION_TIME_INFO")
    assert before < begin < end < time.time_ns()
    assert query(output, own, "SELECT MIN(startNs) >= ?, MAX(endNs) <= ? FROM TASK".replace("?", "{}").format(begin, end)) == [(1, 1)]
    kernels = [(row["Name"], float(row["Duration(us)"])) for row in rows(output, "kernel_details.csv")]
    found = query(output, own, "SELECT value, (endNs - startNs) / 1e3 FROM TASK JOIN COMPUTE_TASK_INFO AS info USING (globalTaskId) "
                  "JOIN STRING_IDS ON id = info.name ORDER BY startNs")
    assert [name for name, _ in found] == [name for name, _ in kernels]
    assert [length for _, length in found] == pytest.approx([length for _, length in kernels], abs=0.002)
    copies = query(output, own, "SELECT COUNT(*) FROM TASK JOIN STRING_IDS ON id = taskType WHERE value = 'MEMCPY_ASYNC'")
    assert copies[0][0] >= 4  # two of item(), two of npu()
    operators = [row["Name"] for row in rows(output, "operator_details.csv")]
    assert [name for name, in query(output, own, "SELECT value FROM PYTORCH_API JOIN STRING_IDS ON id = name ORDER BY PYTORCH_API.rowid")] == [
        *operators, "ProfilerStep#1", "ProfilerStep#2"]
    launches = query(output, own, """SELECT DISTINCT operator.value, kernel.value FROM PYTORCH_API AS api
        JOIN CONNECTION_IDS AS link ON link.id = api.connectionId JOIN TASK ON TASK.connectionId = link.connectionId
        JOIN COMPUTE_TASK_INFO AS info USING (globalTaskId) JOIN STRING_IDS AS operator ON operator.id = api.name
        JOIN STRING_IDS AS kernel ON kernel.id = info.name""")
    assert {("aten::mm", "aclnnMm"), ("aten::relu", "aclnnRelu")} <= set(launches)
    assert not any(operator == "aten::matmul" for operator, _ in launches)
    memory = [float(row["Total Allocated(MB)"]) for row in rows(output, "memory_record.csv")]
    assert [value / 2**20 for value, in query(output, own, "SELECT totalAllocated FROM MEMORY_RECORD")] == pytest.approx(memory, abs=0.001)
    blocks = [float(row["Size(KB)"]) for row in rows(output, "operator_memory.csv")]
    assert [size / 1024 for size, in query(output, own, "SELECT size FROM OP_MEMORY")] == pytest.approx(blocks, abs=0.001)
    steps = rows(output, "step_trace_time.csv")
    found = query(output, "analysis.db", "SELECT step, computing, free, stage FROM StepTraceTime")
    assert [row[0] for row in found] == [row["Step"] for row in steps] == ["1", "2"]
    for row, wanted in zip(found, steps):
        assert row[1:] == pytest.approx([float(wanted[name]) for name in ("Computing", "Free", "Stage")], abs=0.001)
    assert [number for number, in query(output, own, "SELECT id FROM STEP_TIME")] == [1, 2]


def test_stacks_are_exported(tmp_path):
    with profiler.profile(with_stack=True, on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path / "files"))) as profiled:
        work()
    for metric in ("self_cpu_time_total", "self_npu_time_total"):
        profiled.export_stacks(str(tmp_path / "stacks.txt"), metric)
        lines = (tmp_path / "stacks.txt").read_text().splitlines()
        assert any("test_ascend_profiler.py" in line and "_work" in line and line.rsplit(" ", 1)[1].isdigit() for line in lines), metric
    with pytest.warns(RuntimeWarning, match="metric"):
        profiled.export_stacks(str(tmp_path / "stacks.txt"), "self_gpu_time")
    output = os.path.join(only(tmp_path / "files"), "ASCEND_PROFILER_OUTPUT")
    stacks = {row["Name"]: row["Call Stack"] for row in rows(output, "operator_details.csv")}
    assert "test_ascend_profiler.py" in stacks["aten::mm"] and "work" in stacks["aten::mm"]


def test_backward_operators_have_the_stack_of_the_forward_call(tmp_path):
    """Also where autograd runs them on a thread of its own, which has no Python frames."""
    weight = torch.ones(8, 8, device="npu", requires_grad=True)

    def forward_call(x):
        return (x @ weight).tanh()

    with profiler.profile(with_stack=True, on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path))):
        forward_call(torch.ones(4, 8, device="npu")).sum().backward()
    found = rows(os.path.join(only(tmp_path), "ASCEND_PROFILER_OUTPUT"), "operator_details.csv")
    forward = {row["Name"]: row["Call Stack"] for row in found}["aten::tanh"]
    assert "forward_call" in forward and "(backward)" not in forward
    for name in ("aten::tanh_backward", "TanhBackward0", "MmBackward0"):
        stack = next(row["Call Stack"] for row in found if row["Name"] == name)
        assert "forward_call" in stack[:stack.index("(backward)")], (name, stack)
    assert any(row["Name"] == "aten::mm" and "(backward)" in row["Call Stack"] for row in found)


def test_the_trace_obeys_the_rules_of_its_format(tmp_path):
    """Chrome's trace event format, as Perfetto reads it: on a track events lie within each other, an arrow begins and ends in an
    event and goes forward in time, tracks have one name. With stacks and annotations, whose borders PyTorch lets cross."""
    weight = torch.ones(8, 8, device="npu", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with profiler.profile(schedule=profiler.schedule(0, 2, 1, repeat=1), with_stack=True, record_shapes=True, profile_memory=True,
                          on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path))) as profiled:
        for _ in range(3):
            with profiler.record_function("a part"):
                (torch.ones(4, 8).npu() @ weight).sum().backward()
            optimizer.step()
            profiled.step()
    with open(os.path.join(only(tmp_path), "ASCEND_PROFILER_OUTPUT", "trace_view.json")) as file:
        view = json.load(file)
    tracks, names, flows = {}, {}, {}
    for event in view:
        if event["ph"] == "X":
            begin = nanoseconds(event["ts"])
            tracks.setdefault((event["pid"], event["tid"]), []).append((begin, -(begin + nanoseconds(event["dur"])), event["name"]))
        elif event["ph"] == "M":
            key = event["name"], event["pid"], event["tid"] if event["name"].startswith("thread") else None
            assert names.setdefault(key, event["args"]) == event["args"], key
        elif event["ph"] in "sf":
            flows.setdefault((event["cat"], event["id"]), {})[event["ph"]] = (event["pid"], event["tid"]), nanoseconds(event["ts"])
    for track, found in tracks.items():
        around = []
        for begin, end, name in sorted(found):
            while around and begin >= around[-1][0]:
                around.pop()
            assert not around or -end <= around[-1][0] + 1, (track, name, around[-1])
            around.append((-end, name))
    assert {name for found in tracks.values() for _, _, name in found} >= {"a part", "ProfilerStep#1", "ProfilerStep#2", "aclnnMm"}
    assert {kind for kind, _ in flows} >= {"async_npu", "fwdbwd"}
    for key, ends in flows.items():
        assert sorted(ends) == ["f", "s"] and ends["s"][1] <= ends["f"][1], key
        for track, time_ns in ends.values():
            assert any(begin <= time_ns <= -end for begin, end, _ in tracks[track]), key
    assert {process for kind, process, _ in names if kind == "process_name"} >= {process for process, _ in tracks if process != "Spans"}


def nanoseconds(microseconds):
    """Of a number or text, without what a float loses of Unix time."""
    whole, _, rest = str(microseconds).partition(".")
    return int(whole) * 1000 + int(rest.ljust(3, "0")[:3])
