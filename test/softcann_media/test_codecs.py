"""JPEG and PNG in memory, against Pillow's decoders and encoders, and hostile files."""
import ctypes.util
import io
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from media_tools import LIBRARIES, NV12, NV21, RGB, RGBA, ROOT, YUV400, YUV422SP, YUV444SP, YUYV, YVU444SP, host

Image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.skipif(not all(map(ctypes.util.find_library, ("turbojpeg", "png16"))),
                                reason="libturbojpeg or libpng16 is not installed")
REFUSED = 161002   # told once; the stream goes on
UNKNOWN = 10000    # the picture's own format


def photo(width, height, mode="RGB"):
    """A smooth picture with some edges."""
    y, x = np.mgrid[:height, :width]
    channels = [127 + 120 * np.sin(x / (9 + 4 * i) + i) * np.cos(y / (13 - 3 * i)) for i in range(4)]
    pixels = np.stack(channels, -1).astype(np.uint8)
    pixels[height // 3:height // 2, width // 4:width // 2] = (200, 30, 90, 140)
    return Image.fromarray(pixels[:, :, 0] if mode == "L" else pixels[:, :, :len(mode)], mode)


def coded(image, kind="JPEG", **options):
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def yuv_of(content):
    """The decoder's own Y, Cb, Cr."""
    image = Image.open(io.BytesIO(content))
    if image.mode != "L":
        image.draft("YCbCr", image.size)
    return np.asarray(image).astype(np.int64)


def decode(media, content, form, width, height, kind="jpeg"):
    picture = media.picture(form, width + width % 2, height + height % 2, align=64, rows=-(-height // 16) * 16)
    with media.bytes(content) as place:
        ret = media.run(f"{kind}_decode", place, len(content), picture.desc)
    return picture, ret


@pytest.mark.parametrize("subsampling", [0, 1, 2], ids=["444", "422", "420"])
@pytest.mark.parametrize("form", [NV12, NV21, YUV422SP, YUV444SP, YVU444SP, YUV400])
@pytest.mark.parametrize("size", [(64, 48), (75, 51)])
def test_jpeg_decode(media, subsampling, form, size):
    content = coded(photo(*size), quality=95, subsampling=subsampling)
    width, height, channels, ret = media.acl.media.dvpp_jpeg_get_image_info(host(content), len(content))
    assert (width, height, channels, ret) == (*size, 3, 0)
    assert media.acl.media.dvpp_jpeg_get_image_info_v2(host(content), len(content))[3] == subsampling
    picture, ret = decode(media, content, form, *size)
    assert ret == 0, media.error()
    expected = yuv_of(content)
    planes = picture.read()
    assert (planes[0][:size[1], :size[0]] == expected[:, :, 0]).all()
    if subsampling == 0:   # otherwise the file has these pixels
        assert (planes[0][:, -1] == planes[0][:, size[0] - 1]).all() and (planes[0][-1] == planes[0][size[1] - 1]).all()
    for index, ours in enumerate(planes[1:], 1):
        full = expected[:, :, index]
        rows, columns = -(-picture.height // ours.shape[0]), -(-picture.width // ours.shape[1])
        repeated = np.repeat(np.repeat(ours, rows, 0), columns, 1)[:size[1], :size[0]]
        assert abs(repeated - full).mean() < 4   # their chroma is interpolated


def test_jpeg_decode_444_is_exact(media):
    content = coded(photo(64, 48), quality=95, subsampling=0)
    picture, ret = decode(media, content, YUV444SP, 64, 48)
    assert ret == 0
    for index, ours in enumerate(picture.read()):
        assert (ours == yuv_of(content)[:, :, index]).all()


def test_gray_jpeg(media):
    content = coded(photo(64, 48, "L"))
    assert media.acl.media.dvpp_jpeg_get_image_info(host(content), len(content)) == (64, 48, 1, 0)
    picture, ret = decode(media, content, NV12, 64, 48)
    y, u, v = picture.read()
    assert ret == 0 and (y == yuv_of(content)).all() and (u == 128).all() and (v == 128).all()


def test_what_is_left_out_of_the_output_is_filled_in(media):
    call = media.acl.media
    content = coded(photo(75, 51), subsampling=1)
    size, ret = call.dvpp_jpeg_predict_dec_size(host(content), len(content), UNKNOWN)
    assert ret == 0 and size == 128 * 64 * 2
    place, _ = call.dvpp_malloc(size)
    desc = call.dvpp_create_pic_desc()
    assert [call.dvpp_set_pic_desc_data(desc, place), call.dvpp_set_pic_desc_size(desc, size),
            call.dvpp_set_pic_desc_format(desc, UNKNOWN)] == [0] * 3
    with media.bytes(content) as data:
        assert media.run("jpeg_decode", data, len(content), desc) == 0, media.error()
    assert [call.dvpp_get_pic_desc_format(desc), call.dvpp_get_pic_desc_width(desc), call.dvpp_get_pic_desc_height(desc),
            call.dvpp_get_pic_desc_width_stride(desc), call.dvpp_get_pic_desc_height_stride(desc)] == [4, 76, 52, 128, 64]


@pytest.mark.parametrize("form", [NV12, YUV422SP, YUV444SP, YUYV, YUV400])
def test_jpeg_encode(media, form):
    call = media.acl.media
    source = media.picture(form, 64, 48)
    pixels = np.asarray(photo(64, 48).convert("YCbCr")).astype(np.int64)
    planes = source.planes()
    source.fill([pixels[::48 // one.shape[0], ::64 // one.shape[1], index] for index, one in enumerate(planes)])
    sizes = {}
    for level in (100, 30):
        config = call.dvpp_create_jpege_config()
        assert call.dvpp_set_jpege_config_level(config, level) == 0
        room, ret = call.dvpp_jpeg_predict_enc_size(source.desc, config)
        assert ret == 0
        place, _ = call.dvpp_malloc(room)
        size = np.array([room], np.uint32)
        assert media.run("jpeg_encode", source.desc, place, size.ctypes.data, config) == 0, media.error()
        sizes[level] = int(size[0])
        content = np.zeros(sizes[level], np.uint8)
        assert media.acl.rt.memcpy(content.ctypes.data, content.size, place, content.size, 2) == 0
        back = yuv_of(content.tobytes())
        back = back[:, :, 0] if back.ndim == 3 else back
        assert abs(back - pixels[:, :, 0]).mean() < {100: 1, 30: 6}[level]
    assert sizes[30] < sizes[100] / 2
    small = np.array([20], np.uint32)
    assert media.run("jpeg_encode", source.desc, place, small.ctypes.data, config) == REFUSED
    assert "20" in media.error() and call.dvpp_get_pic_desc_ret_code(source.desc) == REFUSED


@pytest.mark.parametrize("mode, form, made_of", [("RGB", RGB, 3), ("RGBA", RGBA, 4), ("L", RGB, 3), ("RGB", RGBA, 3)])
def test_png_decode(media, mode, form, made_of):
    image = photo(75, 51, mode)
    content = coded(image, "PNG")
    assert media.acl.media.dvpp_png_get_image_info(host(content), len(content)) == (75, 51, made_of, 0)
    picture, ret = decode(media, content, form, 75, 51, "png")
    assert ret == 0, media.error()
    expected = np.asarray(image.convert("RGBA" if form == RGBA else "RGB")).astype(np.int64)
    for index, ours in enumerate(picture.read()):
        assert (ours[:51, :75] == expected[:, :, index]).all()


def test_pictures_that_the_decoder_does_not_take(media):
    call = media.acl.media

    def refused(content, name="jpeg"):
        ret = getattr(call, f"dvpp_{name}_get_image_info")(host(content), len(content))[-1]
        assert ret == 100000
        picture, ret = decode(media, content, NV12 if name == "jpeg" else RGB, 64, 48, name)
        assert ret == REFUSED and call.dvpp_get_pic_desc_ret_code(picture.desc) == REFUSED
        return media.error()

    assert "progressive" in refused(coded(photo(64, 48), progressive=True))
    assert "YCbCr" in refused(coded(photo(64, 48).convert("CMYK")))
    assert "16 x 16" in refused(coded(photo(16, 16)))
    assert "no JPEG" in refused(coded(photo(64, 48), "PNG"))
    assert "16 bits" in refused(coded(Image.fromarray(np.zeros((64, 64), np.uint16)), "PNG"), "png")
    whole = coded(photo(64, 48))
    _, ret = decode(media, whole[:len(whole) // 2], NV12, 64, 48)
    assert ret == REFUSED
    picture = media.picture(RGB, 64, 48, align=64)
    with media.bytes(whole) as place:
        assert media.run("jpeg_decode", place, len(whole), picture.desc) == 200006 and "convert" in media.error()
    _, ret = decode(media, whole, NV12, 64, 64)
    assert ret == REFUSED and "64 x 48" in media.error()
    assert decode(media, whole, NV12, 64, 48)[1] == 0   # the stream goes on


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_damaged_files_are_coded_errors(media, kind):
    """1,000 mutations: each decodes, or is refused with a text; nothing else happens."""
    call, draw = media.acl.media, random.Random(7)
    whole = coded(photo(64, 48), kind.upper())
    codes = []
    for _ in range(1000):
        content = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(content))
            choice = draw.randrange(3)
            if choice == 0:
                content[at] = draw.randrange(256)
            elif choice == 1:
                del content[at:at + draw.randint(1, 30)]
            else:
                content[at:at] = bytes(draw.randrange(256) for _ in range(draw.randint(1, 30)))
            content = content or bytearray(b"\0")
        content = bytes(content)
        info = getattr(call, f"dvpp_{kind}_get_image_info")(host(content), len(content))
        assert info[-1] in (0, 100000)
        _, ret = decode(media, content, NV12 if kind == "jpeg" else RGB, 64, 48, kind)
        codes.append(ret)
        assert ret in (0, REFUSED) and (ret == 0 or media.error())
    assert codes.count(REFUSED) > 50
    assert decode(media, whole, NV12 if kind == "jpeg" else RGB, 64, 48, kind)[1] == 0


def test_missing_library_is_named(tmp_path):
    """Where the loader finds no codec the text says what to install."""
    (tmp_path / "libturbojpeg.so.0").write_bytes(b"no library")
    program = """if True:
        import ctypes, acl
        data = ctypes.create_string_buffer(b"x" * 100)
        ret = acl.media.dvpp_jpeg_get_image_info(ctypes.addressof(data), 100)[-1]
        print(ret, acl.get_recent_err_msg())
    """
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{tmp_path}{os.pathsep}{LIBRARIES}",
                   "PYTHONPATH": str(ROOT / "third_party/softcann/python")}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("200006") and "libturbojpeg0" in run.stdout, run.stdout
