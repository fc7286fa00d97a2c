"""mindx.sdk: pictures on the host and the device, and ImageProcessor."""
import numpy as np
import pytest


@pytest.fixture
def base(acl):
    from mindx.sdk import base
    return base


@pytest.fixture
def processor(base):
    return base.ImageProcessor(0)


@pytest.fixture
def photo():
    """96 x 64, smooth, so that JPEG keeps it."""
    y, x = np.mgrid[:64, :96]
    return np.stack([x * 2, y * 3, 255 - x - y], 2).astype(np.uint8)


def numbers(tensor):
    tensor.to_host()
    return np.array(tensor)


def shown(picture):
    """The pixels without padding."""
    return numbers(picture.get_original_tensor())[0]


def on_device(base, array, form):
    picture = base.Image(array, form)
    picture.to_device(0)
    return picture


def test_padding_is_added_and_left_out(base):
    array = np.random.default_rng(0).integers(0, 256, (63, 50, 3), np.uint8)
    picture = base.Image(array, base.rgb)
    assert (picture.width, picture.height, picture.original_width, picture.original_height) == (64, 64, 50, 63)
    assert (picture.format, picture.device, picture.to_tensor().shape) == (base.rgb, -1, [1, 64, 64, 3])
    picture.to_device(0)
    assert picture.device == 0 and np.array_equal(shown(picture), array)
    whole = numbers(picture.get_tensor())[0]
    assert np.array_equal(whole[:63, :50], array) and not whole[63:].any() and not whole[:, 50:].any()
    picture.to_host()
    assert picture.device == -1 and np.array_equal(shown(picture), array)
    padded = base.Image(whole, base.rgb, (base.Size(50, 63), base.Size(64, 64)))
    assert np.array_equal(shown(padded), array)
    for wrong in (lambda: base.Image(array, base.nv12), lambda: base.Image(array[..., 0], base.rgb), lambda: base.Image(array, base.rgba),
                  lambda: base.Image(array.astype(np.float32), base.rgb), lambda: base.Image(array[:4], base.rgb),
                  lambda: base.Image(array, base.rgb, (base.Size(50, 63), base.Size(50, 64)))):
        with pytest.raises(RuntimeError):
            wrong()


def test_tensors_and_files(base, tmp_path):
    array = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    for given in (array, array[None]):
        assert np.array_equal(shown(base.tensor_to_image(base.Tensor(given), base.bgr)), array)
    yuv = np.random.default_rng(1).integers(0, 256, (60, 50), np.uint8)
    tensor = base.Tensor(yuv[..., None])
    tensor.to_device(0)
    picture = base.tensor_to_image(tensor, base.nv12)
    assert (picture.device, picture.original_width, picture.original_height, picture.width, picture.height) == (0, 50, 40, 64, 40)
    assert np.array_equal(numbers(picture.to_tensor())[0, :, :50, 0], yuv)
    path = str(tmp_path / "picture")
    picture.serialize(path)
    again = base.Image()
    again.unserialize(path)
    assert (again.format, again.original_width, again.height) == (base.nv12, 50, 40)
    assert np.array_equal(np.array(again.to_tensor()), numbers(picture.to_tensor()))
    with pytest.raises(RuntimeError, match="File exists"):
        picture.dump_buffer(path)
    picture.dump_buffer(path, True)
    assert len(open(path, "rb").read()) == 64 * 60
    with pytest.raises(RuntimeError, match="not written by serialize"):
        again.unserialize(path)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(RuntimeError):
        picture.dump_buffer(str(tmp_path / "link"), True)


def test_files_of_pictures(base, processor, photo, tmp_path):
    path = str(tmp_path / "photo.jpg")
    processor.encode(on_device(base, photo, base.rgb), path, 95)
    decoded = processor.decode(path, base.rgb)
    assert (decoded.original_width, decoded.original_height, decoded.format) == (96, 64, base.rgb)
    assert np.abs(shown(decoded).astype(int) - photo).mean() < 3
    content = open(path, "rb").read()
    yuv = processor.decode_bytes(content, len(content))
    assert (yuv.format, yuv.width, yuv.height, yuv.to_tensor().shape) == (base.nv12, 128, 64, [1, 96, 128, 1])
    assert processor.encode_bytes(yuv, 90)[:2] == b"\xff\xd8"
    assert np.array_equal(shown(base.image(path, 0, base.bgr)), shown(decoded)[..., ::-1])
    assert np.array_equal(shown(base.dvpp.read_image(path, 0, base.rgb)), shown(decoded))
    for wrong in (lambda: processor.decode("nowhere.jpg", base.nv12), lambda: processor.decode(path, base.rgba),
                  lambda: processor.decode_bytes(content, 3), lambda: processor.decode_bytes(b"no picture", 10),
                  lambda: processor.encode(yuv, "photo.png"), lambda: processor.encode_bytes(yuv, 0),
                  lambda: processor.encode_bytes(base.Image(photo, base.rgb))):
        with pytest.raises(RuntimeError):
            wrong()


def test_png(base, processor, photo, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow writes the PNG")
    for array, form in ((photo, base.rgb), (np.dstack([photo, photo[..., :1]]), base.rgba)):
        path = str(tmp_path / "photo.png")
        image.fromarray(array).save(path)
        decoded = processor.decode(path)
        assert decoded.format == form and decoded.width == 128 and np.array_equal(shown(decoded), array)
    image.fromarray(photo).save(path)
    assert np.array_equal(shown(processor.decode(path, base.bgr)), photo[..., ::-1])


def test_areas_and_sizes(base, processor, photo):
    picture = on_device(base, photo, base.rgb)
    areas = [base.Rect(0, 0, 32, 16), base.Rect(10, 20, 90, 60)]
    cut = processor.crop(picture, areas)
    assert [shown(one).tolist() for one in cut] == [photo[r.y0:r.y1, r.x0:r.x1].tolist() for r in areas]
    assert len(processor.crop([picture, picture], areas)) == 4
    assert shown(processor.resize(picture, base.Size(48, 32), base.bilinear_similar_opencv)).shape == (32, 48, 3)
    nearest = processor.resize(picture, base.Size(48, 32), base.nearest_neighbor_opencv)
    assert np.array_equal(shown(nearest), photo[::2, ::2])
    small, = processor.crop_resize(picture, [(areas[1], base.Size(40, 20))])
    assert (small.original_width, small.original_height, small.width) == (40, 20, 48)
    yuv = processor.convert_format(picture, base.nv12)
    odd, = processor.crop(yuv, [base.Rect(1, 1, 47, 47)])   # corners move outwards to even pixels
    assert (odd.original_width, odd.original_height) == (48, 48)
    assert np.array_equal(numbers(odd.to_tensor())[0, :48, :48], numbers(yuv.to_tensor())[0, :48, :48])
    for wrong in (base.Rect(0, 0, 97, 10), base.Rect(5, 5, 5, 10), base.Rect(-1, 0, 10, 10)):
        with pytest.raises(RuntimeError, match="no area of a picture of 96 x 64"):
            processor.crop(picture, [wrong])
    with pytest.raises(RuntimeError, match="1/32 to 16"):
        processor.resize(picture, base.Size(4096, 2048))


def test_pasting_borders_and_colours(base, processor, photo):
    picture = on_device(base, photo, base.rgb)
    assert np.array_equal(shown(processor.convert_format(picture, base.bgr)), photo[..., ::-1])
    with pytest.raises(RuntimeError, match="convert_format"):
        processor.convert_format(picture, base.rgb)
    around = base.Dim(4, 8, 2, 6)
    widths = ((2, 6), (4, 8), (0, 0))
    for kind, mode in (("replicate", "edge"), ("reflect", "symmetric"), ("reflect_101", "reflect")):
        made = processor.padding(picture, around, base.Color(0, 0, 0), getattr(base, f"border_{kind}"))
        assert np.array_equal(shown(made), np.pad(photo, widths, mode)), kind
    made = shown(processor.padding(picture, around, base.Color(1, 2, 3), base.border_constant))
    assert made[0, 0].tolist() == [1, 2, 3] and np.array_equal(made[2:-6, 4:-8], photo)
    wall = on_device(base, np.zeros((128, 128, 3), np.uint8), base.rgb)
    processor.crop_paste(picture, (base.Rect(0, 0, 32, 32), base.Rect(20, 10, 64, 42)), wall)   # begins at 32, a multiple of 16
    wanted = np.zeros((128, 128, 3), np.uint8)
    wanted[10:42, 32:64] = photo[:32, :32]
    assert np.array_equal(shown(wall), wanted)
