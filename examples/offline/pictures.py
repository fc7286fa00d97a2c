"""What classify.py and detect.py share: JPEGs to a model's size by DVPP, the AIPP config that normalises them, the .om.

A picture from here is YUV420SP in device memory, size x size x 3 / 2 bytes, which is what the .om reads as its input.
"""
import acl
import torch
from infer import HOST_TO_DEVICE, check, value

NV12, BILINEAR = 1, 1


def aipp(size, mean, std):
    """YUV420SP of a JPEG (BT.601, all of 0 to 255) to RGB, then (x / 255 - mean) / std."""
    lines = ["aipp_mode : static", "input_format : YUV420SP_U8", "csc_switch : true", f"src_image_size_w : {size}",
             f"src_image_size_h : {size}"]
    matrix = ((256, 0, 359), (256, -88, -183), (256, 454, 0))
    lines += [f"matrix_r{row}c{column} : {number}" for row, numbers in enumerate(matrix) for column, number in enumerate(numbers)]
    lines += [f"input_bias_{channel} : {bias}" for channel, bias in enumerate((0, 128, 128))]
    for channel, (middle, spread) in enumerate(zip(mean, std)):
        lines += [f"min_chn_{channel} : {255 * middle:.4f}", f"var_reci_chn_{channel} : {1 / (255 * spread):.8f}"]
    return "aipp_op {\n" + "\n".join(lines) + "\n}"


def convert(network, folder, name, size, mean, std):
    """The .om of a network that takes normalised RGB pictures [1, 3, size, size]; it takes raw ones."""
    from softcann import atc

    torch.onnx.export(network, torch.zeros(1, 3, size, size), str(folder / f"{name}.onnx"), dynamo=False, input_names=["image"])
    (folder / "aipp.cfg").write_text(aipp(size, mean, std))
    return atc.convert(folder / f"{name}.onnx", folder / name, insert_op_conf=str(folder / "aipp.cfg"))


def run(model, content, size):
    """The outputs' arrays for a JPEG's bytes."""
    pictures = Pictures()
    memory = pictures.resize(pictures.decode(content), size)
    buffer = acl.mdl.get_dataset_buffer(model.inputs, 0)
    check(acl.update_data_buffer(buffer, memory, size * size * 3 // 2), "acl.update_data_buffer")
    return model()


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

    def resize(self, picture, size):
        """size x size, whatever the picture's proportions; its memory is what the model reads."""
        made = self.describe(size * size * 3 // 2, width=size, height=size, width_stride=size, height_stride=size)
        config = acl.media.dvpp_create_resize_config()
        check(acl.media.dvpp_set_resize_config_interpolation(config, BILINEAR), "dvpp_set_resize_config_interpolation")
        check(acl.media.dvpp_vpc_resize_async(self.channel, picture, made, config, self.stream), "dvpp_vpc_resize_async")
        check(acl.rt.synchronize_stream(self.stream), "the resize")
        check(acl.media.dvpp_destroy_resize_config(config), "dvpp_destroy_resize_config")
        return acl.media.dvpp_get_pic_desc_data(made)
