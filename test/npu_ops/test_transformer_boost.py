"""Operators of Ascend's transformer library: what the witness's program says of the published client holds here."""
import importlib.util
import pathlib

import pytest
import torch

import torch_npu

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "witness" / "transformer_boost.py"
specification = importlib.util.spec_from_file_location("transformer_boost", PROGRAM)
program = importlib.util.module_from_spec(specification)
specification.loader.exec_module(program)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", program.TYPES, ids=str)
@pytest.mark.parametrize("subject", program.SUBJECTS, ids=lambda subject: subject.__name__)
def test_as_plain_arithmetic(subject, dtype):
    subject(dtype)


@pytest.mark.parametrize("neox", [True, False])
def test_rotary_embedding(neox):
    program.rotary_embedding(torch.float16, neox)


@pytest.mark.parametrize("dtype, per_token", [(torch.bfloat16, False), (torch.bfloat16, True), (torch.float16, False)])
def test_before_latent_attention(dtype, per_token):
    program.before_latent_attention(dtype, per_token)


def test_caches_in_tiles():
    """One row of a latent cache of int8 in tiles of 32, its other half in tiles of 16."""
    tokens, heads = 2, 1
    rows = torch.randn(tokens, 512 + 64 + 16).half()
    given = dict(gamma0=torch.ones(8), beta0=torch.zeros(8), gamma1=torch.ones(16), beta1=torch.zeros(16), gamma2=torch.ones(512))
    given = {name: t.half() for name, t in given.items()}
    down = torch.randint(-9, 10, (rows.shape[1], 8), dtype=torch.int8)
    up = torch.randint(-9, 10, (heads * 192, 16), dtype=torch.int8)
    angles = torch.ones(tokens, 64).half(), torch.zeros(tokens, 64).half()
    slots = torch.tensor([17, 2], dtype=torch.int32)

    def run(cache, turned, mode, **more):
        return torch_npu.atb.npu_mla_preprocess(
            torch.linspace(-1, 1, 16).view(2, 8).half(), given["gamma0"], given["beta0"], down, torch.ones(rows.shape[1]),
            given["gamma1"], given["beta1"], up, torch.ones(192), given["gamma2"], *angles, torch.ones(1, 128, 512).half(), cache,
            turned, slots, cache_mode=mode, quant_mode="per_token_quant_symm", **more)

    plain = run(torch.zeros(2, 16, 1, 512).half(), torch.zeros(2, 16, 1, 64).half(), "krope_ctkv")
    scale = torch.tensor([0.02]).half()
    tiled = run(torch.zeros(2, 16, 16, 32, dtype=torch.int8), torch.zeros(2, 4, 16, 16).half(), "int8_nzcache", ctkv_scale=scale,
                q_nope_scale=torch.tensor([4.0]).half())
    for slot in slots.tolist():
        page, row = divmod(slot, 16)
        whole = tiled[1][page, :, row].flatten()
        expected = (plain[1].view(-1, 512)[slot].float() / scale.float()).round().clamp(-128, 127)
        assert (whole.float() - expected).abs().max() <= 1
        assert torch.equal(tiled[3][page, :, row].flatten(), plain[3].view(-1, 64)[slot])


def test_what_is_refused_says_so():
    query = torch.randn(1, 2, 16).half().npu()
    cache, table, out = torch.zeros(1, 16, 2, 16).half().npu(), torch.zeros(1, 1, dtype=torch.int32).npu(), torch.zeros_like(query)
    with pytest.raises(NotImplementedError, match="mask_type 3"):
        torch_npu.atb._npu_paged_attention_v2(query, cache, table, [4], value_cache=cache, num_heads=2, mask_type=3, out=out)
    with pytest.raises(NotImplementedError, match="quant_type 2"):
        torch_npu._npu_paged_attention_quant(query, cache, cache, 2, 2, 1.0, table, torch.tensor([4]), 2, -1, out, out, out)
    with pytest.raises(NotImplementedError, match="enable_expert_mapping"):
        torch_npu.atb.npu_fused_add_topk_div(out[0], out[0, 0], enable_expert_mapping=True)
