"""VPC: formats, sizes, areas, borders and statistics of pictures, against NumPy."""
import numpy as np
import pytest
from media_tools import (
    ALL,
    ARGB,
    BGR,
    NV12,
    NV21,
    PACKED_422,
    RGB,
    RGBA,
    SEMI_PLANAR,
    UYVY,
    YUV400,
    YUV422SP,
    YUV440SP,
    YUV444,
    YUV444SP,
    YUYV,
)


def spread(planes):
    """Chroma repeated to the size of the luma."""
    height, width = planes[0].shape
    return [np.repeat(np.repeat(one, height // one.shape[0], 0), width // one.shape[1], 1) for one in planes]


@pytest.mark.parametrize("form", ALL)
def test_copies_of_one_format_are_exact(media, form):
    source, made = media.picture(form, 62, 30).random(), media.picture(form, 62, 30, stride=None, rows=34)
    assert media.run("vpc_convert_color", source.desc, made.desc) == 0, media.error()
    for ours, theirs in zip(made.read(), source.read()):
        assert (ours == theirs).all()
    assert media.acl.media.dvpp_get_pic_desc_ret_code(made.desc) == 0


@pytest.mark.parametrize("form", sorted({*SEMI_PLANAR, *PACKED_422} - {YUV444SP}))
def test_chroma_is_repeated_and_averaged(media, form):
    source = media.picture(form, 64, 32).random()
    full, back = media.picture(YUV444SP, 64, 32), media.picture(form, 64, 32)
    assert media.run("vpc_convert_color", source.desc, full.desc) == 0, media.error()
    for ours, expected in zip(full.read(), spread(source.read())):
        assert (ours == expected).all()
    assert media.run("vpc_convert_color", full.desc, back.desc) == 0
    for ours, expected in zip(back.read(), source.read()):
        assert (ours == expected).all()


def test_averages_are_rounded(media):
    source, made = media.picture(YUV444SP, 64, 32).random(), media.picture(NV12, 64, 32)
    assert media.run("vpc_convert_color", source.desc, made.desc) == 0
    for ours, full in zip(made.read()[1:], source.read()[1:]):
        four = full[::2, ::2] + full[::2, 1::2] + full[1::2, ::2] + full[1::2, 1::2]
        assert (ours == (four + 2) // 4).all()


WEIGHTS = {0: (0.299, 0.114), 1: (0.299, 0.114), 2: (0.2126, 0.0722), 3: (0.2126, 0.0722), 4: (0.2627, 0.0593), 5: (0.2627, 0.0593)}


def rgb_of(y, u, v, standard):
    red, blue = WEIGHTS[standard]
    narrow = standard % 2
    y = (y - 16) * 255 / 219 if narrow else y * 1.0
    scale = 255 / 224 if narrow else 1.0
    u, v = (u - 128) * scale, (v - 128) * scale
    r, b = y + 2 * (1 - red) * v, y + 2 * (1 - blue) * u
    g = (y - red * r - blue * b) / (1 - red - blue)
    return [np.clip(np.round(one), 0, 255) for one in (r, g, b)]


@pytest.mark.parametrize("standard", range(6))
@pytest.mark.parametrize("form", [NV12, NV21, YUV444SP, UYVY, YUV444])
def test_yuv_to_rgb(media, form, standard):
    value = np.array([standard], np.uint32)
    assert media.acl.media.dvpp_set_channel_desc_param(media.channel, 0, 4, value.ctypes.data) == 0
    source, made = media.picture(form, 64, 32).random(), media.picture(RGB, 64, 32)
    assert media.run("vpc_convert_color", source.desc, made.desc) == 0, media.error()
    for ours, expected in zip(made.read(), rgb_of(*spread(source.read()), standard)):
        assert abs(ours - expected).max() <= 1


@pytest.mark.parametrize("standard", range(6))
def test_rgb_to_yuv_and_back(media, standard):
    value = np.array([standard], np.uint32)
    assert media.acl.media.dvpp_set_channel_desc_param(media.channel, 0, 4, value.ctypes.data) == 0
    source, yuv, made = (media.picture(form, 64, 32) for form in (BGR, YUV444SP, BGR))
    source.random(3)
    assert media.run("vpc_convert_color", source.desc, yuv.desc) == 0
    assert media.run("vpc_convert_color", yuv.desc, made.desc) == 0
    for ours, expected in zip(made.read(), source.read()):
        assert abs(ours - expected).max() <= 2


def test_alpha_and_gray(media):
    source, made = media.picture(RGB, 64, 32).random(), media.picture(ARGB, 64, 32)
    assert media.run("vpc_convert_color", source.desc, made.desc) == 0
    assert (made.read()[3] == 255).all()
    other, alpha = media.picture(RGBA, 64, 32).random(), media.picture(ARGB, 64, 32)
    assert media.run("vpc_convert_color", other.desc, alpha.desc) == 0
    assert all((a == b).all() for a, b in zip(alpha.read(), other.read()))
    gray, colour = media.picture(YUV400, 64, 32).random(), media.picture(RGB, 64, 32)
    assert media.run("vpc_convert_color", gray.desc, colour.desc) == 0
    assert all((channel == gray.read()[0]).all() for channel in colour.read())


def linear(line, size, centres):
    """One axis of a bilinear resize (the last), in 11 bits."""
    count = line.shape[-1]
    place = (np.arange(size) + 0.5) * count / size - 0.5 if centres else np.arange(size) * count / size
    place = np.clip(place, 0, count - 1)
    first = np.minimum(place.astype(int), count - 2)
    part = np.floor((place - first) * 2048 + 0.5).astype(np.int64)
    return line[..., first] * (2048 - part) + line[..., first + 1] * part


@pytest.mark.parametrize("interpolation", [1, 3])
@pytest.mark.parametrize("size", [(31 * 2, 20), (128, 64), (200, 46), (64, 32)])
def test_bilinear(media, size, interpolation):
    source, made = media.picture(YUV400, 64, 32).random(), media.picture(YUV400, *size)
    assert media.run("vpc_resize", source.desc, made.desc, media.config(interpolation)) == 0, media.error()
    across = linear(source.read()[0], size[0], interpolation == 1)
    expected = (linear(across.T, size[1], interpolation == 1).T + (1 << 21)) >> 22
    difference = abs(made.read()[0] - expected)
    assert difference.max() <= 1 and (difference != 0).mean() < 0.01   # weights at exactly one half may round either way


@pytest.mark.parametrize("interpolation", [2, 4])
def test_nearest(media, interpolation):
    source, made = media.picture(RGB, 64, 32).random(), media.picture(RGB, 90, 50)
    assert media.run("vpc_resize", source.desc, made.desc, media.config(interpolation)) == 0
    rows, columns = np.arange(50) * 32 // 50, np.arange(90) * 64 // 90
    for ours, full in zip(made.read(), source.read()):
        assert (ours == full[rows][:, columns]).all()


def test_cubic_keeps_what_cubics_keep(media):
    """A slope stays a slope away from the edges; noise that is made 8 times smaller becomes its mean."""
    source, made = media.picture(YUV400, 64, 64), media.picture(YUV400, 128, 128)
    source.fill([np.tile(np.arange(64) * 3, (64, 1))])
    assert media.run("vpc_resize", source.desc, made.desc, media.config(0)) == 0
    expected = ((np.arange(128) + 0.5) / 2 - 0.5) * 3
    assert abs(made.read()[0][5:-5, 8:-8] - expected[8:-8]).max() <= 1
    noise, small = media.picture(YUV400, 512, 512).random(), media.picture(YUV400, 64, 64)
    assert media.run("vpc_resize", noise.desc, small.desc, media.config(0)) == 0
    assert small.read()[0].std() < noise.read()[0].std() / 5


@pytest.mark.parametrize("interpolation", range(5))
@pytest.mark.parametrize("form", ALL)
def test_one_colour_stays_it(media, form, interpolation):
    source, made = media.picture(form, 64, 32), media.picture(form, 100, 22)
    source.fill([np.full(one.shape, 40 + 50 * index) for index, one in enumerate(source.planes())])
    assert media.run("vpc_resize", source.desc, made.desc, media.config(interpolation)) == 0, media.error()
    for index, one in enumerate(made.read()):
        assert (one == 40 + 50 * index).all()


def test_odd_sizes_of_rgb_from_subsampled(media):
    source, made = media.picture(NV12, 64, 32), media.picture(RGB, 45, 33, rows=34)
    source.fill([np.full(one.shape, 128) for one in source.planes()])
    assert media.run("vpc_resize", source.desc, made.desc, media.config(1)) == 0, media.error()
    assert all((one == 128).all() for one in made.read())


def test_crop_and_paste(media):
    source, made = media.picture(NV12, 128, 64).random(), media.picture(NV12, 128, 96)
    before = made.read()
    cut, paste = media.area(10, 6, 40, 20), media.area(16, 30, 40, 20)
    assert media.run("vpc_crop_and_paste", source.desc, made.desc, cut, paste) == 0, media.error()
    y, u, v = made.read()
    full = source.read()
    assert (y[30:50, 16:56] == full[0][6:26, 10:50]).all()
    assert (u[15:25, 8:28] == full[1][3:13, 5:25]).all() and (v[15:25, 8:28] == full[2][3:13, 5:25]).all()
    y[30:50, 16:56] = before[0][30:50, 16:56]
    assert (y == before[0]).all()


def test_crop_scales_to_the_output(media):
    source, cut_only, both = media.picture(RGB, 128, 64).random(), media.picture(RGB, 40, 20), media.picture(RGB, 80, 40)
    assert media.run("vpc_crop", source.desc, cut_only.desc, media.area(10, 6, 40, 20)) == 0
    assert all((a == b[6:26, 10:50]).all() for a, b in zip(cut_only.read(), source.read()))
    assert media.run("vpc_crop_resize", source.desc, both.desc, media.area(10, 6, 40, 20), media.config(2)) == 0
    assert all((a[::2, ::2] == b[6:26, 10:50]).all() for a, b in zip(both.read(), source.read()))


@pytest.mark.parametrize("kind, mode", [(0, "constant"), (1, "edge"), (2, "symmetric"), (3, "reflect")])
def test_borders(media, kind, mode):
    source, made = media.picture(RGB, 64, 32).random(), media.picture(RGB, 64 + 6 + 8, 32 + 4 + 10)
    border = media.border(kind, 6, 8, 4, 10, (1, 20, 255.4))
    assert media.run("vpc_make_border", source.desc, made.desc, border) == 0, media.error()
    for index, (ours, full) in enumerate(zip(made.read(), source.read())):
        more = {"constant_values": (1, 20, 255)[index]} if mode == "constant" else {}
        assert (ours == np.pad(full, ((4, 10), (6, 8)), mode, **more)).all()


def test_batches(media):
    call = media.acl.media
    sources = [media.picture(NV12, 128, 64).random(seed) for seed in (1, 2)]
    made = [media.picture(NV12, 40, 20) for _ in range(3)]
    taken, results = call.dvpp_create_batch_pic_desc(2), call.dvpp_create_batch_pic_desc(3)
    for batch, pictures in ((taken, sources), (results, made)):
        for index, picture in enumerate(pictures):
            picture.describe(call.dvpp_get_pic_desc(batch, index))
    places = [(0, 0, 0), (0, 20, 10), (1, 2, 4)]
    areas = [media.area(left, top, 40, 20) for _, left, top in places]
    given, ret = call.dvpp_vpc_batch_crop_async(media.channel, taken, [2, 1], results, areas, media.stream)
    assert (given, ret) == (results, 0), media.error()
    assert media.acl.rt.synchronize_stream(media.stream) == 0
    for (source, left, top), picture in zip(places, made):
        assert (picture.read()[0] == sources[source].read()[0][top:top + 20, left:left + 40]).all()
    bordered = [media.picture(NV12, 48, 24) for _ in range(3)]
    for index, picture in enumerate(bordered):
        picture.describe(call.dvpp_get_pic_desc(results, index))
    borders = [media.border(0, 2, 6, 4, 0, (9, 9, 9))] * 3
    _, ret = call.dvpp_vpc_batch_crop_resize_make_border_async(media.channel, taken, [2, 1], results, areas, borders,
                                                               media.config(2), media.stream)
    assert ret == 0 and media.acl.rt.synchronize_stream(media.stream) == 0, media.error()
    for (source, left, top), picture in zip(places, bordered):
        ours = picture.read()[0]
        assert (ours[4:, 2:42] == sources[source].read()[0][top:top + 20, left:left + 40]).all() and (ours[:4] == 9).all()
    assert call.dvpp_vpc_batch_crop_async(media.channel, taken, [2, 2], results, areas, media.stream)[1] == 100000


def test_pyramid(media):
    source, made = media.picture(YUV400, 64, 32).random(), media.picture(YUV400, 32, 16)
    assert media.run("vpc_pyr_down", source.desc, made.desc, 0) == 0, media.error()
    line = np.array([1, 4, 6, 4, 1])
    padded = np.pad(source.read()[0], 2, "reflect")
    full = sum(line[i] * line[j] * padded[i:i + 32, j:j + 64] for i in range(5) for j in range(5))
    assert (made.read()[0] == (full[::2, ::2] + 128) // 256).all()


def test_histogram_and_table(media):
    call = media.acl.media
    source, made = media.picture(RGB, 64, 32).random(), media.picture(RGB, 64, 32)
    counts = call.dvpp_create_hist()
    assert media.run("vpc_calc_hist", source.desc, counts, 0) == 0
    assert call.dvpp_get_hist_dims(counts) == 3 and call.dvpp_get_hist_ret_code(counts) == 0
    for channel, full in enumerate(source.read()):
        place, length, ret = call.dvpp_get_hist_data(counts, channel)
        assert (length, ret) == (256, 0)
        ours = np.frombuffer(media.acl.util.ptr_to_bytes(place, 1024), np.uint32)
        assert (ours == np.bincount(full.ravel(), minlength=256)).all()
    table = call.dvpp_create_lut_map()
    for channel in range(call.dvpp_get_lut_map_dims(table)):
        place, length, ret = call.dvpp_get_lut_map_data(table, channel)
        values = (255 - np.arange(256) * (channel == 0)).astype(np.uint8)
        assert ret == 0 and length == 256 and media.acl.rt.memcpy(place, 256, values.ctypes.data, 256, 0) == 0
    assert media.run("vpc_equalize_hist", source.desc, made.desc, table) == 0
    first, second, third = made.read()
    assert (first == 255 - source.read()[0]).all() and (second == 255).all() and (third == 255).all()


def test_refusals_say_what_is_wrong(media):
    def refused(*given, code=100000):
        ret = media.run(*given)
        assert ret == code, (ret, media.error())
        return media.error()

    source, made = media.picture(NV12, 64, 32).random(), media.picture(NV12, 32, 16)
    call, config = media.acl.media, media.config()
    call.dvpp_set_pic_desc_width_stride(made.desc, 40)
    assert "width stride" in refused("vpc_resize", source.desc, made.desc, config)
    made.describe(made.desc)
    call.dvpp_set_pic_desc_size(made.desc, 10)
    assert "10 bytes" in refused("vpc_resize", source.desc, made.desc, config)
    made.describe(made.desc)
    call.dvpp_set_pic_desc_width(made.desc, 31)
    assert "even" in refused("vpc_resize", source.desc, made.desc, config)
    made.describe(made.desc)
    call.dvpp_set_pic_desc_format(made.desc, 23)
    assert "format 23" in refused("vpc_resize", source.desc, made.desc, config, code=200006)
    made.describe(made.desc)
    host_data = np.zeros(made.bytes, np.uint8)
    call.dvpp_set_pic_desc_data(made.desc, host_data.ctypes.data)
    assert "acldvppMalloc" in refused("vpc_resize", source.desc, made.desc, config)
    made.describe(made.desc)
    assert "leaves the picture" in refused("vpc_crop", source.desc, made.desc, media.area(40, 0, 32, 16))
    assert "even" in refused("vpc_crop", source.desc, made.desc, media.area(1, 0, 32, 16))
    assert "multiple of 16" in refused("vpc_crop_and_paste", source.desc, made.desc, media.area(0, 0, 16, 8), media.area(8, 0, 16, 8))
    large = media.picture(NV12, 64 * 17, 32)
    assert "16 times" in refused("vpc_resize", source.desc, large.desc, config)
    assert call.dvpp_create_roi_config(5, 4, 0, 1) == 0 and "end is before" in media.error()
    assert call.dvpp_set_resize_config_interpolation(config, 5) == 100000
    closed = call.dvpp_create_channel_desc()
    assert call.dvpp_vpc_resize_async(closed, source.desc, made.desc, config, media.stream) == 100000
    assert "not open" in media.error()
    assert media.run("vpc_resize", source.desc, made.desc, config) == 0   # and nothing is broken


def test_freed_memory_is_refused(media):
    source, made = media.picture(NV12, 64, 32), media.picture(NV12, 32, 16)
    assert media.acl.media.dvpp_free(source.data) == 0
    assert media.run("vpc_resize", source.desc, made.desc, media.config()) != 0


def test_a_channel_serves_its_modes(media):
    call = media.acl.media
    only_jpeg = call.dvpp_create_channel_desc()
    assert call.dvpp_set_channel_desc_mode(only_jpeg, 2) == 0 and call.dvpp_create_channel(only_jpeg) == 0
    source, made = media.picture(NV12, 64, 32), media.picture(NV12, 32, 16)
    assert call.dvpp_vpc_resize_async(only_jpeg, source.desc, made.desc, media.config(), media.stream) == 100000
    assert "mode" in media.error()
    assert call.dvpp_destroy_channel(only_jpeg) == 0 and call.dvpp_destroy_channel(only_jpeg) == 100000


@pytest.mark.parametrize("name", ["vdec", "venc"])
def test_video_is_refused_by_name(media, name):
    call = media.acl.media
    desc = getattr(call, f"{name}_create_channel_desc")()
    assert getattr(call, f"{name}_set_channel_desc_entype")(desc, 2) == 0
    assert getattr(call, f"{name}_get_channel_desc_entype")(desc) == 2
    assert getattr(call, f"{name}_set_channel_desc_callback")(desc, lambda *_: None) == 0
    assert getattr(call, f"{name}_create_channel")(desc) == 200006 and "FFmpeg" in media.error()
    assert getattr(call, f"{name}_destroy_channel_desc")(desc) == 0


def test_wide_pictures_are_aligned_to_two(media):
    source, made = media.picture(YUV422SP, 4100, 8, stride=4100), media.picture(YUV440SP, 4100, 8, stride=4100)
    assert media.run("vpc_convert_color", source.random().desc, made.desc) == 0, media.error()


def test_work_runs_in_stream_order(media):
    source, middle, made = media.picture(YUYV, 64, 32).random(), media.picture(YUYV, 64, 32), media.picture(YUYV, 64, 32)
    for _ in range(50):
        assert media.acl.media.dvpp_vpc_resize_async(media.channel, source.desc, middle.desc, media.config(), media.stream) == 0
        assert media.acl.media.dvpp_vpc_resize_async(media.channel, middle.desc, made.desc, media.config(), media.stream) == 0
        assert media.acl.rt.memset_async(middle.data, middle.bytes, 0, middle.bytes, media.stream) == 0
    assert media.acl.rt.synchronize_stream(media.stream) == 0
    assert all((ours == full).all() for ours, full in zip(made.read(), source.read()))
    assert not any(one.any() for one in middle.read())
