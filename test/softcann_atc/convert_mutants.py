"""Converts damaged models and AIPP configs, in a process of its own: `convert_mutants.py models|configs COUNT FOLDER`.

Prints as json how many ended with which code ("ok" for those that were converted), what else was raised and for which seeds, how much
memory was used beyond that of the start (MB), and the longest conversion (s of processor time, its child processes' too). FOLDER has
the models *.onnx that are changed.
"""
import collections
import json
import os
import pathlib
import resource
import sys
import warnings

import mutations
from softcann.atc import convert
from softcann.atc.errors import AtcError

ADDRESS_SPACE = 3 << 30   # beyond that of the start
STATIC = """aipp_op {
aipp_mode : static
input_format : YUV420SP_U8
csc_switch : true
src_image_size_w : 12
src_image_size_h : 12
crop : true
load_start_pos_w : 2
load_start_pos_h : 2
crop_size_w : 6
crop_size_h : 6
padding : true
left_padding_size : 1
right_padding_size : 1
top_padding_size : 1
bottom_padding_size : 1
padding_value : 3
matrix_r0c0 : 256
input_bias_1 : 128
mean_chn_0 : 100
min_chn_1 : 3.5
var_reci_chn_2 : 0.25
related_input_rank : 0
}"""
DYNAMIC = """aipp_op {
aipp_mode : dynamic
max_src_image_size : 400
related_input_rank : 0
}"""


def limit_memory():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ADDRESS_SPACE,) * 2)


def spent():
    """Seconds of processor time, so that a busy machine makes no conversion longer."""
    return sum(os.times()[:4])


def peak():
    """MB"""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def mutants(kind, count, folder):
    """Seeds and what to convert: a model and options."""
    models = [path.read_bytes() for path in sorted(folder.glob("*.onnx"))]
    (folder / "plain").mkdir(exist_ok=True)
    for seed in range(count):
        chance = mutations.seeded(seed)
        if kind == "models":
            path = folder / "plain" / "mutant.onnx"
            path.write_bytes(mutations.model_of(chance, chance.choice(models)))
            yield seed, path, {}
        else:
            path = folder / "plain" / "aipp.cfg"
            path.write_bytes(mutations.config_of(chance, STATIC if seed % 4 else DYNAMIC))
            yield seed, folder / "picture.onnx", {"insert_op_conf": path}


def main(kind, count, folder):
    codes, raised, longest, start = collections.Counter(), collections.defaultdict(list), 0.0, peak()
    limit_memory()
    for seed, path, options in mutants(kind, int(count), pathlib.Path(folder)):
        began = spent()
        try:
            convert(path, pathlib.Path(folder) / "plain" / "mutant", **options)
            codes["ok"] += 1
        except AtcError as error:
            codes[error.code] += 1
        except Exception as error:
            raised[f"{type(error).__name__}: {error}"[:200]].append(seed)
        longest = max(longest, spent() - began)
    print(json.dumps({"codes": codes, "raised": raised, "memory": peak() - start, "longest": longest}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
