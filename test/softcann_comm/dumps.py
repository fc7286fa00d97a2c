"""Dumps of collectives and messages; runs in each rank (see ranks.py)."""
import json
import pathlib

import hccl
import numpy as np
from hccl import Buffer


def read(folder):
    inner, = pathlib.Path(folder, "dump").iterdir()
    return [(line, np.load(inner / line["file"])) for line in map(json.loads, (inner / "index.jsonl").read_text().splitlines())]


def dumped(place, dtype):
    """What is sent and received, also where another rank lets this one wait."""
    folder = place.folder / f"rank{place.rank}_{dtype}"
    folder.mkdir()
    config = folder / "acl.json"
    config.write_text(json.dumps({"dump": {"dump_path": str(folder / "dump"), "dump_op_switch": "on", "dump_mode": "all"}}))
    comm = place.connect()
    own = np.full(5, place.rank + 1, np.float32)
    bits = (own.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else own
    send, receive = Buffer(bits), Buffer(np.zeros_like(bits))
    assert hccl.acl.aclmdlInitDump() == 0 and hccl.acl.aclmdlSetDump(str(config).encode()) == 0
    comm.all_reduce(send, receive, 5, dtype)
    if place.rank == 0:
        comm.send(send, 3, dtype, 1)
    elif place.rank == 1:
        comm.receive(receive, 3, dtype, 0)
    assert hccl.acl.aclrtSynchronizeDevice() == 0
    assert hccl.acl.aclmdlFinalizeDump() == 0
    assert all(line["line"].startswith(str(pathlib.Path(__file__).parent)) for line, _ in read(folder))
    found = [(line["operator"], line["kind"], line["name"], line["dtype"], values.tolist()) for line, values in read(folder)]
    total = float(sum(range(1, place.size + 1)))
    wanted = [("HcclAllReduce", "input", "sendBuf", dtype, own.tolist()), ("HcclAllReduce", "output", "recvBuf", dtype, [total] * 5)]
    wanted += [[("HcclSend", "input", "to1", dtype, [1.0] * 3)], [("HcclRecv", "output", "from0", dtype, [1.0] * 3)]][place.rank]
    assert found == wanted, found


def failed(place):
    """What a rank has given to a collective that fails, where failures are dumped; also of one that waited in vain."""
    folder = place.folder / f"failed{place.rank}"
    folder.mkdir()
    config = folder / "acl.json"
    config.write_text(json.dumps({"dump": {"dump_path": str(folder / "dump"), "dump_scene": "aic_err_brief_dump"}}))
    comm = place.connect()
    own = Buffer(np.full(5, place.rank + 1, np.float32))
    assert hccl.acl.aclmdlInitDump() == 0 and hccl.acl.aclmdlSetDump(str(config).encode()) == 0
    comm.all_reduce(own, own, 5, "float32")
    hccl.synchronize()
    assert not (folder / "dump").exists()
    sum_of_all = own.read()[:4].tolist()
    try:
        comm.all_reduce(own, own, 3 + place.rank, "float32")    # ranks that do not agree
        hccl.synchronize()
    except hccl.HcclError:
        pass
    else:
        raise AssertionError("no error")
    assert hccl.acl.aclmdlFinalizeDump() == 0
    comm.destroy()
    found = [(line["operator"], line["kind"], values.tolist()) for line, values in read(folder)]
    assert found == [("HcclAllReduce", "input", sum_of_all[:3 + place.rank])], found
