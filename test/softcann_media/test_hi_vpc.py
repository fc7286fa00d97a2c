"""libacl_dvpp_mpi: VPC of the media interface V2, called as a C program does."""
import ctypes

import numpy as np
import pytest
from media_tools import LIBRARIES, NV12, RGB, YUV400

u32 = ctypes.c_uint32
ILLEGAL, MISSING, EXISTS, NULL = (ctypes.c_int32(0xA0078000 | cause).value for cause in (3, 5, 4, 6))


def structure(**fields):
    return type("Structure", (ctypes.Structure,), {"_fields_": list(fields.items())})


Attributes = structure(attr=ctypes.c_int32, width=u32, height=u32)
Info = structure(address=ctypes.c_void_p, size=u32, width=u32, height=u32, width_stride=u32, height_stride=u32, format=u32)
Region = structure(top=u32, left=u32, width=u32, height=u32)
Cut = structure(dest=Info, region=Region)
Resized = structure(width=u32, height=u32, interpolation=u32)
Paste = structure(dest=Info, region=Region, resize=Resized, top=u32, left=u32)
Scalar = structure(values=ctypes.c_double * 4)
Bordered = structure(dest=Info, region=Region, resize=Resized, top=u32, left=u32, kind=ctypes.c_int, value=Scalar)
Border = structure(top=u32, bottom=u32, left=u32, right=u32, kind=ctypes.c_int, value=Scalar)
Counts = structure(first=u32 * 256, second=u32 * 256, third=u32 * 256)
Table = structure(first=ctypes.c_uint8 * 256, second=ctypes.c_uint8 * 256, third=ctypes.c_uint8 * 256)


@pytest.fixture(scope="module")
def hi(acl):
    library = ctypes.CDLL(str(LIBRARIES / "libacl_dvpp_mpi.so"))
    assert library.hi_mpi_sys_init() == 0
    return library


@pytest.fixture
def channel(hi):
    number = ctypes.c_int32()
    assert hi.hi_mpi_vpc_sys_create_chn(ctypes.byref(number), ctypes.byref(Attributes())) == 0
    yield number
    assert hi.hi_mpi_vpc_destroy_chn(number) == 0


def info(picture):
    return Info(picture.data, picture.bytes, picture.width, picture.height, picture.stride, picture.rows, picture.form)


def done(hi, channel, name, *given, wait=-1):
    """Calls a function and waits for its task; the code."""
    task = u32(999)
    ret = getattr(hi, f"hi_mpi_vpc_{name}")(channel, *given, ctypes.byref(task), wait)
    assert ret != 0 or hi.hi_mpi_vpc_get_process_result(channel, task, wait) == 0
    return ret


def test_resize_equals_the_other_interface(hi, channel, media):
    source, ours, theirs = media.picture(NV12, 64, 32).random(), media.picture(RGB, 96, 40), media.picture(RGB, 96, 40)
    ret = done(hi, channel, "resize", ctypes.byref(info(source)), ctypes.byref(info(ours)), ctypes.c_double(1.5), ctypes.c_double(0), 1)
    assert ret == 0, media.error()
    assert media.run("vpc_resize", source.desc, theirs.desc, media.config(1)) == 0
    assert all((a == b).all() for a, b in zip(ours.read(), theirs.read()))
    wrong = done(hi, channel, "resize", ctypes.byref(info(source)), ctypes.byref(info(ours)), ctypes.c_double(2), ctypes.c_double(0), 1)
    assert wrong == ILLEGAL and "128 x 40" in media.error()


def test_cuts_and_pastes(hi, channel, media):
    source, first, second = media.picture(RGB, 64, 32).random(), media.picture(RGB, 20, 10), media.picture(RGB, 20, 10)
    cuts = (Cut * 2)(Cut(info(first), Region(4, 6, 20, 10)), Cut(info(second), Region(10, 0, 20, 10)))
    assert done(hi, channel, "crop", ctypes.byref(info(source)), cuts, 2) == 0, media.error()
    full = source.read()
    assert (first.read()[0] == full[0][4:14, 6:26]).all() and (second.read()[1] == full[1][10:20, :20]).all()
    target = media.picture(RGB, 64, 32)
    pastes = (Paste * 1)(Paste(info(target), Region(4, 6, 20, 10), Resized(40, 20, 2), 2, 8))
    assert done(hi, channel, "crop_resize_paste", ctypes.byref(info(source)), pastes, 1) == 0, media.error()
    assert (target.read()[0][2:22:2, 8:48:2] == full[0][4:14, 6:26]).all()
    framed = media.picture(RGB, 64, 32)
    bordered = (Bordered * 1)(Bordered(info(framed), Region(4, 6, 20, 10), Resized(40, 20, 2), 2, 8, 0, Scalar((5, 6, 7, 0))))
    assert done(hi, channel, "crop_resize_make_border", ctypes.byref(info(source)), bordered, 1) == 0, media.error()
    made = framed.read()
    assert (made[0][2:22:2, 8:48:2] == full[0][4:14, 6:26]).all() and (made[2][:2] == 7).all() and (made[1][:, 48:] == 6).all()


def test_borders_pyramids_histograms_tables(hi, channel, media):
    source, made = media.picture(YUV400, 64, 32).random(), media.picture(YUV400, 72, 36)
    assert done(hi, channel, "copy_make_border", ctypes.byref(info(source)), ctypes.byref(info(made)), Border(2, 2, 4, 4, 1)) == 0
    full = source.read()[0]
    assert (made.read()[0] == np.pad(full, ((2, 2), (4, 4)), "edge")).all()
    levels = [media.picture(YUV400, 32, 16), media.picture(YUV400, 16, 8)]
    box = ((ctypes.c_int8 * 5) * 5)(*[(ctypes.c_int8 * 5)(*[1] * 5)] * 5)
    assert done(hi, channel, "pyrdown", ctypes.byref(info(source)), (Info * 2)(*map(info, levels)), 2, box, ctypes.c_uint16(25),
                Border(kind=2)) == 0, media.error()
    for below in levels:
        padded = np.pad(full, 2, "symmetric")
        sums = sum(padded[i:i + full.shape[0], j:j + full.shape[1]] for i in range(5) for j in range(5))
        full = (sums[::2, ::2] + 12) // 25
        assert (below.read()[0] == full).all()
    counts = Counts()
    assert done(hi, channel, "calc_hist", ctypes.byref(info(source)), ctypes.byref(counts)) == 0
    assert (np.array(counts.first) == np.bincount(source.read()[0].ravel(), minlength=256)).all()
    table, other = Table(first=tuple(range(255, -1, -1))), media.picture(YUV400, 64, 32)
    assert done(hi, channel, "equalize_hist", ctypes.byref(info(source)), ctypes.byref(info(other)), ctypes.byref(table)) == 0
    assert (other.read()[0] == 255 - source.read()[0]).all()


def test_refusals(hi, channel, media):
    source, made = media.picture(NV12, 64, 32), media.picture(NV12, 32, 16)
    bad = info(made)
    bad.width_stride = 40
    assert done(hi, channel, "convert_color", ctypes.byref(info(source)), ctypes.byref(info(made))) == ILLEGAL
    assert done(hi, channel, "resize", ctypes.byref(info(source)), ctypes.byref(bad), ctypes.c_double(), ctypes.c_double(), 1) == ILLEGAL
    assert "width stride" in media.error()
    assert done(hi, channel, "calc_hist", None, None) == NULL
    assert hi.hi_mpi_vpc_create_chn(channel, ctypes.byref(Attributes())) == EXISTS
    assert hi.hi_mpi_vpc_destroy_chn(400) == MISSING
    assert hi.hi_mpi_vpc_get_process_result(channel, 12345, -1) == MISSING
    nobody = ctypes.c_int32(77)
    assert done(hi, nobody, "calc_hist", ctypes.byref(info(source)), ctypes.byref(Counts())) == MISSING
    place = ctypes.c_void_p()
    assert hi.hi_mpi_dvpp_malloc(0, ctypes.byref(place), ctypes.c_uint64(100)) == 0 and hi.hi_mpi_dvpp_free(place) == 0


def test_colours_by_the_channels_matrix(hi, channel, media):
    source, made = media.picture(NV12, 64, 32), media.picture(RGB, 64, 32)
    grey = np.arange(64 * 32, dtype=np.uint8).reshape(32, 64)
    source.fill([grey, *(np.full(one.shape, 128, np.uint8) for one in source.planes()[1:])])
    vpc, wide, narrow = 7, 0, 1
    for matrix, wanted in ((narrow, np.clip(255 / 219 * (grey.astype(float) - 16), 0, 255)), (wide, grey.astype(float))):
        assert hi.hi_mpi_sys_set_chn_csc_matrix(vpc, channel, matrix, None) == 0
        assert done(hi, channel, "convert_color", ctypes.byref(info(source)), ctypes.byref(info(made))) == 0, media.error()
        assert all(np.abs(plane - wanted).max() <= 1 for plane in made.read())
    assert hi.hi_mpi_sys_set_chn_csc_matrix(vpc, channel, 100, None) != 0 and "BT.601" in media.error()
    assert hi.hi_mpi_sys_set_chn_csc_matrix(vpc, 500, 0, None) != 0
