"""Numbers and plain records of the interface."""
import dataclasses
import enum

# A class body would take the member `bool` for the type; these numbers are aclDataType's.
dtype = enum.Enum("dtype", {"undefined": -1, "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6,
                            "uint16": 7, "uint32": 8, "int64": 9, "uint64": 10, "double": 11, "bool": 12}, module=__name__)


class image_format(enum.Enum):
    """acldvppPixelFormat's numbers."""
    yuv_400 = 0
    nv12 = 1
    nv21 = 2
    yuv_sp_422 = 3
    yvu_sp_422 = 4
    yuv_sp_444 = 5
    yvu_sp_444 = 6
    yuyv_packed_422 = 7
    uyvy_packed_422 = 8
    yvyu_packed_422 = 9
    vyuy_packed_422 = 10
    yuv_packed_444 = 11
    rgb = 12
    bgr = 13
    argb = 14
    abgr = 15
    rgba = 16
    bgra = 17

    @property
    def rows(self):
        """Rows of bytes for each two rows of pixels."""
        return {1: 3, 2: 3, 3: 4, 4: 4, 5: 6, 6: 6}.get(self.value, 2)

    @property
    def channels(self):
        """Bytes of a pixel in a row."""
        return 1 if self.value < 7 else 2 if self.value < 11 else 3 if self.value < 14 else 4

    @property
    def is_plain(self):
        """Whether a pixel's channels lie together, in full resolution."""
        return self.value == 0 or self.value >= 12


class interpolation(enum.Enum):
    huaweiu_high_order_filter = 0
    bilinear_similar_opencv = 1
    nearest_neighbor_opencv = 2
    bilinear_similar_tensorflow = 3
    nearestneighbor_tensorflow = 4


class borderType(enum.Enum):
    border_constant = 0
    border_replicate = 1
    border_reflect = 2
    border_reflect_101 = 3


class visionDataFormat(enum.Enum):
    NCHW = 0
    NHWC = 1


class ModelType(enum.Enum):
    model_type_om = 0
    model_type_mindir = 1


class ModelLoadType(enum.Enum):
    load_model_from_file = 1
    load_model_from_file_with_mem = 2
    load_model_from_mem = 3
    load_model_from_mem_with_mem = 4


@dataclasses.dataclass
class Size:
    """Pixels."""
    width: int = 0
    height: int = 0


@dataclasses.dataclass
class Point:
    """Pixels from the upper left corner."""
    x: int = 0
    y: int = 0


@dataclasses.dataclass
class Rect:
    """Pixels from the upper left corner; (x1, y1) is the first outside."""
    x0: int = 0
    y0: int = 0
    x1: int = 0
    y1: int = 0


@dataclasses.dataclass
class Dim:
    """Pixels of a border."""
    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0


@dataclasses.dataclass
class Color:
    """0 to 255, in the order of the picture's channels."""
    channel_zero: int = 0
    channel_one: int = 0
    channel_two: int = 0
