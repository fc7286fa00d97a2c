"""From a JPEG to its five likeliest classes: decoded and resized by DVPP, normalised by AIPP, classified by a ResNet's .om.

    pip install softcann[atc] numpy
    python examples/offline/classify.py photo.jpg [--labels names.txt] [--keep folder]

It prints class_ids, scores and label_names. The weights are random, so the classes mean nothing; load a checkpoint into resnet()
for some that do. In a shell of CANN's it runs on its atc and acl, where they are installed.
"""
import argparse
import pathlib
import tempfile

import acl
import numpy as np
import torch
from infer import HOST_TO_DEVICE, Model, check, value
from torch import nn

SIZE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NV12, BILINEAR = 1, 1


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside))
        down = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.short = down if stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.second(self.first(x)) + self.short(x))


def resnet(classes=1000):
    """ResNet-18 with random weights."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for inside, outside in ((64, 64), (64, 128), (128, 256), (256, 512)):
        layers += [Block(inside, outside, 1 if inside == outside else 2), Block(outside, outside, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes)).eval()


def aipp():
    """YUV420SP of a JPEG (BT.601, all of 0 to 255) to RGB, then (x / 255 - mean) / std."""
    lines = ["aipp_mode : static", "input_format : YUV420SP_U8", "csc_switch : true", f"src_image_size_w : {SIZE}",
             f"src_image_size_h : {SIZE}"]
    matrix = ((256, 0, 359), (256, -88, -183), (256, 454, 0))
    lines += [f"matrix_r{row}c{column} : {number}" for row, numbers in enumerate(matrix) for column, number in enumerate(numbers)]
    lines += [f"input_bias_{channel} : {bias}" for channel, bias in enumerate((0, 128, 128))]
    for channel, (mean, std) in enumerate(zip(MEAN, STD)):
        lines += [f"min_chn_{channel} : {255 * mean:.4f}", f"var_reci_chn_{channel} : {1 / (255 * std):.8f}"]
    return "aipp_op {\n" + "\n".join(lines) + "\n}"


def convert(network, folder):
    from softcann import atc

    torch.onnx.export(network, torch.zeros(1, 3, SIZE, SIZE), str(folder / "resnet.onnx"), dynamo=False, input_names=["image"],
                      output_names=["scores"])
    (folder / "aipp.cfg").write_text(aipp())
    return atc.convert(folder / "resnet.onnx", folder / "resnet", insert_op_conf=str(folder / "aipp.cfg"))


class Pictures:
    """A channel of DVPP on the current device."""

    def __init__(self):
        self.stream = value(acl.rt.create_stream(), "acl.rt.create_stream")
        self.channel = acl.media.dvpp_create_channel_desc()
        check(acl.media.dvpp_create_channel(self.channel), "dvpp_create_channel")

    def describe(self, size, **fields):
        """A picture of `size` bytes of new memory."""
        desc = acl.media.dvpp_create_pic_desc()
        memory = value(acl.media.dvpp_malloc(size), "dvpp_malloc")
        for name, field in {"data": memory, "size": size, "format": NV12, **fields}.items():
            check(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(desc, field), name)
        return desc

    def decode(self, content):
        pointer = acl.util.bytes_to_ptr(content)
        size = value(acl.media.dvpp_jpeg_predict_dec_size(pointer, len(content), NV12), "dvpp_jpeg_predict_dec_size")
        coded = value(acl.media.dvpp_malloc(len(content)), "dvpp_malloc")
        check(acl.rt.memcpy(coded, len(content), pointer, len(content), HOST_TO_DEVICE), "acl.rt.memcpy")
        picture = self.describe(size)   # the decoder fills in its sizes
        check(acl.media.dvpp_jpeg_decode_async(self.channel, coded, len(content), picture, self.stream), "dvpp_jpeg_decode_async")
        check(acl.rt.synchronize_stream(self.stream), "the JPEG")
        check(acl.media.dvpp_free(coded), "dvpp_free")
        return picture

    def resize(self, picture):
        """SIZE x SIZE; its memory is what the model reads."""
        made = self.describe(SIZE * SIZE * 3 // 2, width=SIZE, height=SIZE, width_stride=SIZE, height_stride=SIZE)
        config = acl.media.dvpp_create_resize_config()
        check(acl.media.dvpp_set_resize_config_interpolation(config, BILINEAR), "dvpp_set_resize_config_interpolation")
        check(acl.media.dvpp_vpc_resize_async(self.channel, picture, made, config, self.stream), "dvpp_vpc_resize_async")
        check(acl.rt.synchronize_stream(self.stream), "the resize")
        check(acl.media.dvpp_destroy_resize_config(config), "dvpp_destroy_resize_config")
        return acl.media.dvpp_get_pic_desc_data(made)


def classify(model, content):
    """Scores of all classes, of a JPEG's bytes."""
    pictures = Pictures()
    memory = pictures.resize(pictures.decode(content))
    buffer = acl.mdl.get_dataset_buffer(model.inputs, 0)
    check(acl.update_data_buffer(buffer, memory, SIZE * SIZE * 3 // 2), "acl.update_data_buffer")
    logits = model()[0][0].astype(np.float64)
    exponents = np.exp(logits - logits.max())
    return exponents / exponents.sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image", type=pathlib.Path)
    parser.add_argument("--labels", type=pathlib.Path, help="a file with the name of a class in each line")
    parser.add_argument("--keep", type=pathlib.Path, help="where the model is to stay")
    given = parser.parse_args()
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    with tempfile.TemporaryDirectory() as temporary:
        model = Model(convert(resnet(), given.keep or pathlib.Path(temporary)))
        scores = classify(model, given.image.read_bytes())
    names = given.labels.read_text().splitlines() if given.labels else []
    best = np.argsort(-scores)[:5]
    print("class_ids:", best.tolist())
    print("scores:", [round(float(scores[one]), 6) for one in best])
    print("label_names:", [names[one] if one < len(names) else f"class {one}" for one in best])


if __name__ == "__main__":
    main()
