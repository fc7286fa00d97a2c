"""libacl_dvpp_mpi: JPEG and PNG of the media interface V2 (hi_mpi_vdec, venc, pngd), called as a C program does."""
import ctypes
import io
import select
import threading

import numpy as np
import pytest
from media_tools import LIBRARIES, NV12, NV21, RGB, RGBA, planes_in
from PIL import Image

u8, u16, u32, u64, s16, s32 = (ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int16, ctypes.c_int32)
JPEG, H264, UNKNOWN = 26, 96, 10000
VDEC, VENC, PNGD, SYS = 5, 8, 64, 2


def code(module, cause):
    return ctypes.c_int32(0xA0000000 | module << 16 | 4 << 13 | cause).value


def structure(**fields):
    return type("Structure", (ctypes.Structure,), {"_fields_": list(fields.items())})


DecodeAttributes = structure(type=u32, mode=u32, width=u32, height=u32, stream=u32, frame=u32, count=u32, video=u32 * 3)
Stream = structure(end_of_frame=u32, end_of_stream=u32, display=u32, pts=u64, private=u64, size=u32, address=ctypes.c_void_p)
Target = structure(width=u32, height=u32, width_stride=u32, height_stride=u32, format=u32, address=u64, bytes=u32, offsets=s16 * 4)
Info = structure(width=u32, height=u32, width_stride=u32, height_stride=u32, bytes=u32, format=u32, reserved=u32 * 4)
Frame = structure(width=u32, height=u32, field=u32, format=u32, kinds=u32 * 4, header_stride=u32 * 3, width_stride=u32 * 3,
                  height_stride=u32 * 3, header_phys=u64 * 3, phys=u64 * 3, header_virt=ctypes.c_void_p * 3, virt=ctypes.c_void_p * 3,
                  time=u32, pts=u64, user=u64 * 2, flag=u32, supplement=u64 * 14, pool=u32, module=u32)
Coded = structure(type=u32, address=ctypes.c_void_p, size=u32, pts=u64, reserved=s32 * 2)
Picture = structure(address=ctypes.c_void_p, bytes=u32, width=u32, height=u32, width_stride=u32, height_stride=u32, format=u32)
Jpeg = structure(dcf=u32, thumbnails=u8, sizes=u32 * 4, mode=s32)
EncodeAttributes = structure(type=u32, max_width=u32, max_height=u32, buffer=u32, profile=u32, by_frame=u32, width=u32, height=u32,
                             jpeg=Jpeg, rate=u32 * 10, group=s32 * 4)
Quality = structure(qfactor=u32, tables=u8 * 192, mcu=u32, ecs=u32)
Pack = structure(input=u64, address=ctypes.c_void_p, size=u32, pts=u64, end=u32, type=u32, offset=u32, count=u32, info=u32 * 24)
Packs = structure(pack=ctypes.POINTER(Pack), count=u32, sequence=u32, info=u32 * 14, more=u64 * 48)
Event = structure(events=u32, data=ctypes.c_void_p)


@pytest.fixture(scope="module")
def hi(acl):
    return ctypes.CDLL(str(LIBRARIES / "libacl_dvpp_mpi.so"))


@pytest.fixture
def decoder(hi):
    attributes = DecodeAttributes(type=JPEG, mode=1, width=4096, height=4096)
    assert hi.hi_mpi_vdec_create_chn(3, ctypes.byref(attributes)) == 0 and hi.hi_mpi_vdec_start_recv_stream(3) == 0
    yield 3
    assert hi.hi_mpi_vdec_stop_recv_stream(3) == 0 and hi.hi_mpi_vdec_destroy_chn(3) == 0


@pytest.fixture
def encoder(hi):
    assert hi.hi_mpi_venc_create_chn(2, ctypes.byref(EncodeAttributes(type=JPEG, max_width=512, max_height=512, width=64, height=48))) == 0
    assert hi.hi_mpi_venc_start_chn(2, ctypes.byref(s32(-1))) == 0
    yield 2
    assert hi.hi_mpi_venc_stop_chn(2) == 0 and hi.hi_mpi_venc_destroy_chn(2) == 0


def photo(width=96, height=64, mode="RGB"):
    y, x = np.mgrid[0:height, 0:width]
    channels = [x * 255 // width, y * 255 // height, (x + y) % 256, 255 - x][:len(mode)]
    return Image.fromarray(np.stack(channels, -1).astype(np.uint8), mode)


def coded(picture, **options):
    made = io.BytesIO()
    picture.save(made, **options)
    return made.getvalue()


def download(media, place, size):
    raw = np.empty(size, np.uint8)
    assert media.acl.rt.memcpy(raw.ctypes.data, size, place, size, 2) == 0
    return raw


def decode(hi, media, content, form=UNKNOWN, channel=3):
    """(code of sending, frame, its bytes) of a JPEG."""
    with media.bytes(content) as place:
        stream, info = Stream(1, 0, 1, 77, 0, len(content), place), Info()
        ret = hi.hi_mpi_vdec_get_jpegd_output_info(ctypes.byref(stream), form, ctypes.byref(info))
        room = info.bytes if ret == 0 else 1 << 16
        output, failed = media.acl.media.dvpp_malloc(room)
        assert failed == 0
        target = Target(width_stride=info.width_stride, height_stride=info.height_stride, format=form, address=output, bytes=room)
        ret = hi.hi_mpi_vdec_send_stream(channel, ctypes.byref(stream), ctypes.byref(target), -1)
        if ret != 0:
            return ret, None, None
        frame, back = Frame(), Stream()
        assert hi.hi_mpi_vdec_get_frame(channel, ctypes.byref(frame), None, ctypes.byref(back), 1000) == 0
        assert back.address == place and frame.pts == 77 and frame.virt[0] == output
        assert hi.hi_mpi_vdec_release_frame(channel, ctypes.byref(frame)) == 0
        return 0, frame, download(media, output, room)


def test_a_jpeg_in_its_own_format(hi, decoder, media):
    picture = photo()
    ret, frame, raw = decode(hi, media, coded(picture, format="JPEG", quality=95, subsampling=2))
    assert ret == 0 and (frame.width, frame.height, frame.format, frame.flag) == (96, 64, NV21, 0)
    got = planes_in(NV21, raw, 96, 64, frame.width_stride[0], frame.height_stride[0])
    wanted = np.asarray(picture.convert("YCbCr")).astype(int)
    assert abs(got[0].astype(int) - wanted[..., 0]).mean() < 2
    assert abs(got[1].repeat(2, 0).repeat(2, 1).astype(int) - wanted[..., 1]).mean() < 4


def test_a_jpeg_as_rgb_and_of_odd_size(hi, decoder, media):
    picture = photo(95, 63)
    ret, frame, raw = decode(hi, media, coded(picture, format="JPEG", quality=95, subsampling=0), RGB)
    assert ret == 0 and (frame.width, frame.height, frame.flag) == (96, 64, 0)
    got = np.stack(planes_in(RGB, raw, 95, 63, frame.width_stride[0], frame.height_stride[0]), -1)
    assert abs(got.astype(int) - np.asarray(picture)).mean() < 3


def test_what_a_jpeg_is_like(hi, media):
    for subsampling, number in ((0, 0), (1, 1), (2, 2)):
        content = coded(photo(100, 50), format="JPEG", subsampling=subsampling)
        info = Info()
        held = ctypes.create_string_buffer(content, len(content))   # memory of the host is read too
        stream = Stream(size=len(content), address=ctypes.cast(held, ctypes.c_void_p))
        assert hi.hi_mpi_dvpp_get_image_info(JPEG, ctypes.byref(stream), ctypes.byref(info)) == 0
        assert (info.width, info.height, info.width_stride, info.height_stride, info.format) == (100, 50, 128, 64, number)
        assert info.bytes == 128 * 64 * (3, 2, 1.5)[number]


def test_a_damaged_jpeg_is_a_frame_that_says_so(hi, decoder, media):
    content = coded(photo(), format="JPEG", quality=90)
    ret, frame, _ = decode(hi, media, content[:len(content) // 2])
    assert ret == 0 and frame.flag == 1 and "libjpeg" in media.error()
    ret, frame, _ = decode(hi, media, coded(photo(), format="JPEG", progressive=True))
    assert ret == 0 and frame.flag == 1 and "progressive" in media.error()


def test_decoders_refuse(hi, decoder, media):
    assert hi.hi_mpi_vdec_create_chn(9, ctypes.byref(DecodeAttributes(type=H264))) == code(VDEC, 8) and "FFmpeg" in media.error()
    assert hi.hi_mpi_vdec_create_chn(3, ctypes.byref(DecodeAttributes(type=JPEG))) == code(VDEC, 4)
    assert hi.hi_mpi_vdec_create_chn(256, ctypes.byref(DecodeAttributes(type=JPEG))) == code(VDEC, 2)
    assert hi.hi_mpi_vdec_create_chn(4, None) == code(VDEC, 6)
    assert hi.hi_mpi_vdec_get_frame(3, ctypes.byref(Frame()), None, None, 0) == code(VDEC, 14)
    assert hi.hi_mpi_vdec_get_frame(8, ctypes.byref(Frame()), None, None, 0) == code(VDEC, 5)
    stream = Stream(size=5, address=media.acl.util.bytes_to_ptr(b"12345"))
    assert hi.hi_mpi_vdec_send_stream(3, ctypes.byref(stream), ctypes.byref(Target(address=4096, bytes=9)), -1) == code(VDEC, 3)
    assert hi.hi_mpi_vdec_stop_recv_stream(3) == 0
    assert hi.hi_mpi_vdec_send_stream(3, ctypes.byref(stream), ctypes.byref(Target()), -1) == code(VDEC, 9)


def test_another_thread_waits_for_frames(hi, decoder, media):
    got = []

    def fetch():
        frame = Frame()
        got.append((hi.hi_mpi_vdec_get_frame(3, ctypes.byref(frame), None, None, -1), frame.width))
    thread = threading.Thread(target=fetch)
    thread.start()
    content = coded(photo(128, 32), format="JPEG")
    with media.bytes(content) as place:
        output, ret = media.acl.media.dvpp_malloc(1 << 20)
        assert ret == 0
        target = Target(format=NV12, address=output, bytes=1 << 20)
        stream = Stream(size=len(content), address=place)
        assert hi.hi_mpi_vdec_send_stream(3, ctypes.byref(stream), ctypes.byref(target), -1) == 0
        thread.join(20)
    assert got == [(0, 128)]


def test_a_channel_can_be_polled(hi, decoder, media):
    poll = s32()
    assert hi.hi_mpi_sys_create_epoll(8, ctypes.byref(poll)) == 0
    fd = hi.hi_mpi_vdec_get_fd(3)
    assert fd >= 0 and select.select([fd], [], [], 0)[0] == []
    assert hi.hi_mpi_sys_ctl_epoll(poll, 1, fd, ctypes.byref(Event(1, 1234))) == 0
    count, events = s32(9), (Event * 4)()
    assert hi.hi_mpi_sys_wait_epoll(poll, events, 4, 0, ctypes.byref(count)) == 0 and count.value == 0
    content = coded(photo(), format="JPEG")
    with media.bytes(content) as place:
        output, ret = media.acl.media.dvpp_malloc(1 << 20)
        assert ret == 0
        stream, target = Stream(size=len(content), address=place), Target(format=UNKNOWN, address=output, bytes=1 << 20)
        assert hi.hi_mpi_vdec_send_stream(3, ctypes.byref(stream), ctypes.byref(target), -1) == 0
    assert hi.hi_mpi_sys_wait_epoll(poll, events, 4, 1000, ctypes.byref(count)) == 0
    assert (count.value, events[0].events, events[0].data) == (1, 1, 1234)
    assert hi.hi_mpi_vdec_get_frame(3, ctypes.byref(Frame()), None, None, 0) == 0 and select.select([fd], [], [], 0)[0] == []
    assert hi.hi_mpi_sys_ctl_epoll(poll, 7, fd, None) == code(SYS, 3)
    assert hi.hi_mpi_vdec_close_fd(3) == 0 and hi.hi_mpi_sys_close_epoll(poll) == 0


@pytest.mark.parametrize("mode, form", [("RGB", RGB), ("RGBA", RGBA)])
def test_a_png(hi, media, mode, form):
    picture = photo(mode=mode)
    content = coded(picture, format="PNG")
    assert hi.hi_mpi_pngd_create_chn(1, ctypes.byref((u64 * 5)())) == 0
    with media.bytes(content) as place:
        stream, info = Coded(address=place, size=len(content), pts=5), Info()
        assert hi.hi_mpi_png_get_image_info(ctypes.byref(stream), ctypes.byref(info)) == 0
        assert (info.width, info.height, info.format) == (96, 64, 6 if mode == "RGBA" else 2)
        output, ret = media.acl.media.dvpp_malloc(info.bytes)
        assert ret == 0
        target = Picture(address=output, bytes=info.bytes, width_stride=info.width_stride, height_stride=info.height_stride, format=UNKNOWN)
        assert hi.hi_mpi_pngd_send_stream(1, ctypes.byref(stream), ctypes.byref(target), -1) == 0
        made, back = Picture(), Coded()
        assert hi.hi_mpi_pngd_get_image_data(1, ctypes.byref(made), ctypes.byref(back), 0) == 0
        assert (made.format, back.address, back.pts) == (form, place, 5)
        got = np.stack(planes_in(form, download(media, output, info.bytes), 96, 64, made.width_stride, made.height_stride), -1)
        assert (got == np.asarray(picture)).all()
        assert hi.hi_mpi_pngd_get_image_data(1, ctypes.byref(made), None, 0) == code(PNGD, 14)
        stream.size = 40   # cut off
        assert hi.hi_mpi_pngd_send_stream(1, ctypes.byref(stream), ctypes.byref(target), -1) == 0
        assert hi.hi_mpi_pngd_get_image_data(1, ctypes.byref(made), None, 0) == code(PNGD, 3)
    target.format = NV12
    assert hi.hi_mpi_pngd_send_stream(1, ctypes.byref(stream), ctypes.byref(target), -1) == code(PNGD, 8)
    assert hi.hi_mpi_pngd_destroy_chn(1) == 0 and hi.hi_mpi_pngd_destroy_chn(1) == code(PNGD, 5)


def frame_of(picture):
    frame = Frame(width=picture.width, height=picture.height, format=picture.form, pts=11)
    frame.width_stride[0], frame.height_stride[0], frame.virt[0] = picture.stride, picture.rows, picture.data
    return frame


def smooth(media):
    made = media.picture(NV12, 64, 48)
    return made.fill([np.linspace(20, 220, one.size).reshape(one.shape).astype(np.uint8) for one in made.planes()])


def test_a_frame_becomes_a_jpeg(hi, encoder, media):
    source = smooth(media)
    assert hi.hi_mpi_venc_set_jpeg_param(2, ctypes.byref(Quality(qfactor=95))) == 0
    assert hi.hi_mpi_venc_send_frame(2, ctypes.byref(frame_of(source)), -1) == 0, media.error()
    packs = Packs(pack=ctypes.pointer(Pack()), count=1)
    assert hi.hi_mpi_venc_get_stream(2, ctypes.byref(packs), 1000) == 0
    pack = packs.pack[0]
    assert (packs.count, packs.info[2], pack.pts, pack.end, pack.type, pack.input) == (1, 95, 11, 1, 8, source.data)
    got = Image.open(io.BytesIO(download(media, pack.address, pack.size).tobytes()))
    got.draft("YCbCr", got.size)   # as they are coded
    assert got.size == (64, 48) and abs(np.asarray(got)[..., 0].astype(int) - source.read()[0]).max() < 8
    place = pack.address
    assert hi.hi_mpi_venc_release_stream(2, ctypes.byref(packs)) == 0
    assert media.acl.rt.free(place) != 0   # it is gone
    assert hi.hi_mpi_venc_get_stream(2, ctypes.byref(packs), 0) == code(VENC, 14)


def test_a_jpeg_into_memory_of_the_client(hi, encoder, media):
    frame, room = frame_of(smooth(media)), u32()
    assert hi.hi_mpi_venc_get_jpege_predicted_size(ctypes.byref(frame), None, ctypes.byref(room)) == 0
    place, ret = media.acl.media.dvpp_malloc(room.value)
    assert ret == 0
    target = Coded(type=JPEG, address=place, size=room.value)
    assert hi.hi_mpi_venc_send_jpege_frame(2, ctypes.byref(frame), ctypes.byref(target), -1) == 0, media.error()
    packs = Packs(pack=ctypes.pointer(Pack()), count=1)
    assert hi.hi_mpi_venc_get_stream(2, ctypes.byref(packs), 1000) == 0 and packs.pack[0].address == place
    assert Image.open(io.BytesIO(download(media, place, packs.pack[0].size).tobytes())).size == (64, 48)
    assert hi.hi_mpi_venc_release_stream(2, ctypes.byref(packs)) == 0 and media.acl.rt.free(place) == 0   # still the client's
    place, ret = media.acl.media.dvpp_malloc(100)
    target = Coded(type=JPEG, address=place, size=100)
    assert hi.hi_mpi_venc_send_jpege_frame(2, ctypes.byref(frame), ctypes.byref(target), -1) == code(VENC, 19)


def test_encoders_refuse(hi, encoder, media):
    assert hi.hi_mpi_venc_create_chn(5, ctypes.byref(EncodeAttributes(type=H264))) == code(VENC, 8) and "FFmpeg" in media.error()
    assert hi.hi_mpi_venc_request_idr(2, 1) == code(VENC, 8)
    assert hi.hi_mpi_venc_set_jpeg_param(2, ctypes.byref(Quality(qfactor=101))) == code(VENC, 3)
    assert hi.hi_mpi_venc_send_frame(2, ctypes.byref(frame_of(media.picture(RGB, 64, 48))), -1) == code(VENC, 8)
    assert hi.hi_mpi_venc_send_frame(2, ctypes.byref(frame_of(media.picture(NV12, 1024, 48))), -1) == code(VENC, 3)
    apart = frame_of(media.picture(NV12, 64, 48))
    apart.virt[1] = apart.virt[0]
    assert hi.hi_mpi_venc_send_frame(2, ctypes.byref(apart), -1) == code(VENC, 8)
    assert hi.hi_mpi_venc_start_chn(2, ctypes.byref(s32(1))) == 0   # one frame, and no more
    assert hi.hi_mpi_venc_send_frame(2, ctypes.byref(frame_of(smooth(media))), -1) == 0
    assert hi.hi_mpi_venc_send_frame(2, ctypes.byref(frame_of(smooth(media))), -1) == code(VENC, 9)


def test_strides_that_suit_several_modules(hi, media):
    Base, Aligned = structure(width=u32, height=u32, format=u32, reserved=u64 * 2), structure(width=u32, height=u32, bytes=u64, more=u64 * 2)
    made = Aligned()
    assert hi.hi_mpi_sys_get_image_align_info((u32 * 2)(0, 1), 2, ctypes.byref(Base(100, 51, NV12)), ctypes.byref(made)) == 0
    assert (made.width, made.height, made.bytes) == (112, 52, 112 * 52 * 3 // 2)
    assert hi.hi_mpi_sys_get_image_align_info((u32 * 2)(0, 4), 2, ctypes.byref(Base(100, 51, RGB)), ctypes.byref(made)) == 0
    assert (made.width, made.height, made.bytes) == (384, 64, 384 * 64)
    assert hi.hi_mpi_sys_get_image_align_info((u32 * 1)(9), 1, ctypes.byref(Base(100, 51, NV12)), ctypes.byref(made)) == code(SYS, 3)
