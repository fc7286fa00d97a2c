#include "media/jpeg.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "rt/base/error.h"

namespace softcann::media {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorKind::bad_argument, why); }

// The part of the TurboJPEG interface that is used; it is the same in all of its versions 2 and 3.
struct TurboJpeg {
  void* (*init_decompress)();
  void* (*init_compress)();
  int (*destroy)(void*);
  char* (*error)(void*);
  int (*header)(void*, const unsigned char*, unsigned long, int* width, int* height, int* subsampling, int* colours);
  int (*decompress)(void*, const unsigned char*, unsigned long, unsigned char** planes, int width, int* strides, int height,
                    int flags);
  int (*compress)(void*, const unsigned char** planes, int width, const int* strides, int height, int subsampling,
                  unsigned char** to, unsigned long* bytes, int quality, int flags);
  unsigned long (*bound)(int width, int height, int subsampling);
};
constexpr int kNoRealloc = 1024, kAccurate = 4096, kStopOnWarning = 8192;  // flags
constexpr int kYCbCr = 1, kGray = 2;                                       // colours

const TurboJpeg& library() {
  static const std::unique_ptr<TurboJpeg> found = []() -> std::unique_ptr<TurboJpeg> {
    void* handle = dlopen("libturbojpeg.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return nullptr;
    auto made = std::make_unique<TurboJpeg>();
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
      return function != nullptr;
    };
    const bool whole = find(made->init_decompress, "tjInitDecompress") && find(made->init_compress, "tjInitCompress") &&
                       find(made->destroy, "tjDestroy") && find(made->error, "tjGetErrorStr2") &&
                       find(made->header, "tjDecompressHeader3") && find(made->decompress, "tjDecompressToYUVPlanes") &&
                       find(made->compress, "tjCompressFromYUVPlanes") && find(made->bound, "tjBufSize");
    return whole ? std::move(made) : nullptr;
  }();
  if (found == nullptr) {
    throw Error(ErrorKind::unsupported,
                "JPEG needs libturbojpeg.so.0 of libjpeg-turbo 2 or newer: install it (Debian and Ubuntu: "
                "libturbojpeg0 or libturbojpeg, Fedora and openEuler: turbojpeg)");
  }
  return *found;
}

struct Handle {
  explicit Handle(void* made) : handle(made) {
    if (handle == nullptr) throw std::bad_alloc();
  }
  ~Handle() { library().destroy(handle); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  void* handle;
};

// The hardware's decoder takes sequential Huffman pictures of 8 bits only; the marker of the frame tells.
void check_process(const unsigned char* data, size_t bytes) {
  if (bytes < 4 || data[0] != 0xff || data[1] != 0xd8) refuse("it is no JPEG");
  size_t at = 2;
  while (at + 4 <= bytes) {
    if (data[at] != 0xff) refuse("it is no JPEG, or damaged: there is no marker where one must be");
    const unsigned char marker = data[at + 1];
    if (marker == 0xff) {
      ++at;  // fill
      continue;
    }
    if (marker == 0xc0 || marker == 0xc1) {
      if (data[at + 4 < bytes ? at + 4 : at] != 8) refuse("it has not 8 bits a sample");
      return;
    }
    if (marker == 0xc2) refuse("it is progressive, which the hardware's decoder does not take: save it as baseline");
    if (marker >= 0xc3 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
      refuse("it is lossless, hierarchical or arithmetic-coded, which the hardware's decoder does not take: save it as baseline");
    }
    if (marker == 0xd9 || marker == 0xda) break;
    at += 2 + (size_t{data[at + 2]} << 8 | data[at + 3]);
  }
  refuse("it is damaged: it has no frame");
}

struct Header {
  int width = 0, height = 0, subsampling = 0, colours = 0;
};

Header read_header(void* handle, const unsigned char* data, size_t bytes) {
  check_process(data, bytes);
  Header made;
  if (library().header(handle, data, bytes, &made.width, &made.height, &made.subsampling, &made.colours) != 0) {
    refuse(std::string("libjpeg-turbo: ") + library().error(handle));
  }
  if (made.colours != kYCbCr && made.colours != kGray) refuse("its colours are not YCbCr or gray");
  if (made.subsampling < 0 || made.subsampling > ACL_JPEG_CSS_411) refuse("its subsampling is unknown");
  if (made.width < 32 || made.height < 32 || made.width > 8192 || made.height > 8192) {
    refuse("it is " + std::to_string(made.width) + " x " + std::to_string(made.height) + "; 32 x 32 to 8192 x 8192 is possible");
  }
  return made;
}

struct Subsampling {
  uint8_t shift_x, shift_y;
};

Subsampling shifts_of(int subsampling) {
  constexpr Subsampling all[] = {{0, 0}, {1, 0}, {1, 1}, {0, 0}, {0, 1}, {2, 0}};
  return all[subsampling];
}

int subsampling_of(uint32_t channels, uint8_t shift_x, uint8_t shift_y) {
  if (channels == 1) return ACL_JPEG_CSS_GRAY;
  for (int i = 0; i <= ACL_JPEG_CSS_411; ++i) {
    if (i != ACL_JPEG_CSS_GRAY && shifts_of(i).shift_x == shift_x && shifts_of(i).shift_y == shift_y) return i;
  }
  refuse("there is no JPEG of that subsampling");
}

}  // namespace

CodedInfo jpeg_info(const void* data, size_t bytes) {
  const Handle handle(library().init_decompress());
  const Header header = read_header(handle.handle, static_cast<const unsigned char*>(data), bytes);
  return {static_cast<uint32_t>(header.width), static_cast<uint32_t>(header.height), header.colours == kGray ? 1 : 3,
          static_cast<acldvppJpegFormat>(header.subsampling)};
}

Image decode_jpeg(const void* data, size_t bytes) {
  const Handle handle(library().init_decompress());
  const auto* begin = static_cast<const unsigned char*>(data);
  const Header header = read_header(handle.handle, begin, bytes);
  const Subsampling shift = shifts_of(header.subsampling);
  const bool gray = header.colours == kGray;
  Image image{true, shift.shift_x, shift.shift_y, {}};
  const uint32_t width = align_up(static_cast<uint32_t>(header.width), 1U << shift.shift_x);
  const uint32_t height = align_up(static_cast<uint32_t>(header.height), 1U << shift.shift_y);
  image.planes.emplace_back(width, height);
  for (int chroma = 0; !gray && chroma < 2; ++chroma) image.planes.emplace_back(width >> shift.shift_x, height >> shift.shift_y);
  unsigned char* planes[3] = {};
  int strides[3] = {};
  for (size_t i = 0; i < image.planes.size(); ++i) {
    planes[i] = image.planes[i].pixels.data();
    strides[i] = static_cast<int>(image.planes[i].width);
  }
  if (library().decompress(handle.handle, begin, bytes, planes, 0, strides, 0, kAccurate | kStopOnWarning) != 0) {
    refuse(std::string("libjpeg-turbo: ") + library().error(handle.handle));
  }
  return image;
}

size_t jpeg_bound(uint32_t width, uint32_t height, const PixelFormat& format) {
  return library().bound(static_cast<int>(width), static_cast<int>(height),
                         subsampling_of(format.channels, format.shift_x, format.shift_y));
}

size_t encode_jpeg(const Image& image, uint32_t quality, void* to, size_t room) {
  const Handle handle(library().init_compress());
  const int width = static_cast<int>(image.width()), height = static_cast<int>(image.height());
  const int subsampling = subsampling_of(static_cast<uint32_t>(image.planes.size()), image.shift_x, image.shift_y);
  const unsigned char* planes[3] = {};
  int strides[3] = {};
  for (size_t i = 0; i < image.planes.size(); ++i) {
    planes[i] = image.planes[i].pixels.data();
    strides[i] = static_cast<int>(image.planes[i].width);
  }
  // The library wants room for the worst case before it begins; the client has room for the result.
  std::vector<unsigned char> made(library().bound(width, height, subsampling));
  unsigned char* begin = made.data();
  unsigned long bytes = made.size();
  if (library().compress(handle.handle, planes, width, strides, height, subsampling, &begin, &bytes, static_cast<int>(quality),
                         kNoRealloc | kAccurate) != 0) {
    refuse(std::string("libjpeg-turbo: ") + library().error(handle.handle));
  }
  if (bytes > room) refuse("the JPEG has " + std::to_string(bytes) + " bytes, the memory for it " + std::to_string(room));
  std::copy_n(begin, bytes, static_cast<unsigned char*>(to));
  return bytes;
}

}  // namespace softcann::media
