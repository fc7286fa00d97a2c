"""Files that are damaged, foreign, or hostile: a code and a text each, never a crash."""
import ctypes
import hashlib
import random
import struct

import pytest
import torch
from model_client import Error, Loaded
from om_writer import attribute, field, graph, om, operator, pack

UNSUPPORTED, SOC, SIZE, DEFINITION, WEIGHTS, KERNEL, PARAM = 200006, 507008, 145006, 545002, 545003, 145018, 145000
# What a loading may answer: CANN's codes for models (1450xx, 5450xx), for a feature or chip that is not there, for memory.
CODES = {*range(145000, 145023), *range(545000, 545010), UNSUPPORTED, SOC, 245000}


def network():
    x = dict(inputs=["v0 x float32 ND 2,3"], outputs=["v5 y float32 ND 2,4"],
             ops=[operator("aten::linear", ["t:v0", "t:w", "t:b"], ["v1"], ["v0"]),
                  operator("aten::sum", ["t:v1"], ["v2"]), operator("aten::gt.Scalar", ["t:v2", "f:0.5"], ["v3"]),
                  operator("softcann::if", ["t:v3", "i:1", "i:2"], ["v4"]),
                  operator("aten::add.Tensor", ["t:v4", "t:v1", "i:2"], ["v5"])], workspace_bytes=64)
    bodies = [dict(inputs=[], outputs=["v6 a float32 ND 2,4"], ops=[operator("aten::relu", ["t:v1"], ["v6"])]),
              dict(inputs=[], outputs=["v7 a float32 ND 2,4"], ops=[operator("aten::reshape", ["t:v1", "I:2,-1"], ["v7"])])]
    return om([x, *bodies], {"w": torch.ones(4, 3), "b": torch.zeros(4)})


def refusal(acl, data):
    number = ctypes.c_uint32()
    with pytest.raises(Error) as failed:
        acl.aclmdlLoadFromMem(data, len(data), ctypes.byref(number))
    return failed.value


def one_operator(kernel, args, outputs=("v1",), **constants):
    return om([dict(inputs=["v0 x float32 ND 4"], outputs=["v0 y float32 ND 4"], ops=[operator(kernel, args, outputs)])], constants)


def test_a_damaged_file_is_told_from_a_foreign_one(acl):
    data = network()
    error = refusal(acl, data[:-1] + b"\1")
    assert error.code == PARAM and "checksum" in error.text
    error = refusal(acl, pack(field(1, "resnet") + field(7, graph([], [], [])), b"", checksum=bytes(64)))
    assert error.code == UNSUPPORTED and "python -m softcann atc" in error.text
    error = refusal(acl, b"\x89PNG" + bytes(400))
    assert error.code == PARAM and "no .om file" in error.text


def test_a_file_for_another_chip_or_version(acl):
    error = refusal(acl, om([dict(inputs=[], outputs=[], ops=[])], soc="Ascend310P3"))
    assert error.code == SOC and "SOFTCANN_SOC=Ascend310P3" in error.text
    error = refusal(acl, om([dict(inputs=[], outputs=[], ops=[])], model={"softcann_format": 99, "soc_version": "Ascend910B3"}))
    assert error.code == UNSUPPORTED and "format 99" in error.text


def test_a_truncated_file(acl):
    data = network()
    for size in (0, 3, 255, 256, 300, len(data) // 2, len(data) - 1):
        assert refusal(acl, data[:size]).code == SIZE


@pytest.mark.parametrize("kernel", ["aten::from_file", "aten::add_.Tensor", "aten::set_", "nowhere::neg", "softcann::system", ""])
def test_only_listed_operators_run(acl, kernel):
    error = refusal(acl, one_operator(kernel, ["t:v0"]))
    assert error.code == KERNEL and "not one that models may call" in error.text


@pytest.mark.parametrize("kernel, args", [
    ("aten::neg", []), ("aten::neg", ["t:v0", "t:v0"]), ("aten::neg", ["t:"]), ("aten::neg", ["x:v0"]), ("aten::neg", ["i:1"]),
    ("aten::neg", ["t"]), ("aten::sum.dim_IntList", ["t:v0", "I:1,x"]), ("aten::sum.dim_IntList", ["t:v0", "I:99999999999999999999"]),
    ("aten::sum.dim_IntList", ["t:v0", "F:0.5"]), ("aten::gelu", ["t:v0", "i:3"]), ("aten::add.Tensor", ["t:v0", "T:v0"]),
    ("aten::mul.Scalar", ["t:v0", "f:1.5x"])])
def test_tokens_that_do_not_fit_the_schema(acl, kernel, args):
    error = refusal(acl, one_operator(kernel, args))
    assert error.code == DEFINITION and "operator '" in error.text


def test_constants_outside_the_weights(acl):
    base = dict(inputs=[], outputs=[], ops=[])
    for line in ("w float32 0 16 4", "w float32 64 4 1", "w float32 -64 4 1", "w float32 1 4 1"):
        definition = field(1, "m") + field(7, graph(**base, constants=[line])) + b"".join(
            field(11, attribute(key, value)) for key, value in {"softcann_format": 1, "soc_version": "Ascend910B3"}.items())
        assert refusal(acl, pack(definition, bytes(8))).code == WEIGHTS
    for line in ("w float32 0 4 9223372036854775807,9", "w float99 0 4 1", "w float32 0 4", "w float32 0 4 -1"):
        definition = field(1, "m") + field(7, graph(**base, constants=[line])) + b"".join(
            field(11, attribute(key, value)) for key, value in {"softcann_format": 1, "soc_version": "Ascend910B3"}.items())
        assert refusal(acl, pack(definition, bytes(8))).code == DEFINITION


def test_a_body_that_calls_itself_ends(acl):
    data = om([dict(inputs=["v0 x bool ND -"], outputs=["v1 y bool ND -"], ops=[operator("softcann::if", ["t:v0", "i:1", "i:1"], ["v1"])]),
               dict(inputs=[], outputs=["v2 y bool ND -"], ops=[operator("softcann::if", ["t:v0", "i:1", "i:1"], ["v2"])])])
    with pytest.raises(Error, match="nested more than 32 deep"):
        Loaded(acl, data)(torch.tensor(True))


def mutated(data, chance):
    """The file with a few bytes changed, cut out or doubled; most often with a checksum that fits, so that the reader is reached."""
    data, body = bytearray(data), 256
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(body if chance.random() < 0.9 else 0, len(data))
        kind = chance.random()
        if kind < 0.7:
            data[at] = chance.choice((0, 1, 127, 128, 255, data[at] ^ 1 << chance.randrange(8), chance.randrange(256)))
        elif kind < 0.85:
            del data[at:at + chance.randrange(1, 9)]
        else:
            data[at:at] = data[at:at + chance.randrange(1, 9)]
    if chance.random() < 0.8 and len(data) > body:
        data[12:76] = hashlib.sha256(data[body:]).hexdigest().encode()
        data[76:80] = struct.pack("<I", len(data) - body)
        data[184:192] = struct.pack("<Q", len(data) - body)
    return bytes(data)


def test_mutated_files_are_refused_or_run(acl):
    original, chance, refused = network(), random.Random(20), 0
    whole = Loaded(acl, original)
    inputs, outputs = whole.input_set([torch.randn(2, 3)]), whole.output_set()
    for _ in range(1000):
        data = mutated(original, chance)
        try:
            model = Loaded(acl, data)
        except Error as error:
            assert error.code in CODES and error.text, error
            refused += 1
            continue
        try:
            acl.aclmdlExecute(model.id, inputs, outputs)
        except Error as error:
            assert error.code != 0 and error.text
        acl.aclmdlUnload(model.id)
    assert 500 < refused < 1000
