#include "media/png.h"

#include <dlfcn.h>

#include <memory>

#include "rt/base/error.h"

namespace softcann::media {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorKind::bad_argument, why); }

// png_image of libpng's simplified interface.
struct PngImage {
  void* opaque;
  uint32_t version, width, height, format, flags, colormap_entries, warning_or_error;
  char message[64];
};
constexpr uint32_t kVersion = 1, kAlpha = 1, kColour = 2, kSixteenBits = 4;
constexpr uint32_t kWarning = 1, kError = 2;

struct LibPng {
  int (*begin)(PngImage*, const void* data, size_t bytes);
  int (*finish)(PngImage*, const void* background, void* to, int32_t stride, void* colours);
  void (*free)(PngImage*);
};

const LibPng& library() {
  static const std::unique_ptr<LibPng> found = []() -> std::unique_ptr<LibPng> {
    void* handle = dlopen("libpng16.so.16", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return nullptr;
    auto made = std::make_unique<LibPng>();
    made->begin = reinterpret_cast<decltype(made->begin)>(dlsym(handle, "png_image_begin_read_from_memory"));
    made->finish = reinterpret_cast<decltype(made->finish)>(dlsym(handle, "png_image_finish_read"));
    made->free = reinterpret_cast<decltype(made->free)>(dlsym(handle, "png_image_free"));
    return made->begin && made->finish && made->free ? std::move(made) : nullptr;
  }();
  if (found == nullptr) {
    throw Error(ErrorKind::unsupported,
                "PNG needs libpng16.so.16: install it (Debian and Ubuntu: libpng16-16 or libpng16-16t64, "
                "Fedora and openEuler: libpng)");
  }
  return *found;
}

class Reader {
 public:
  Reader(const void* data, size_t bytes) {
    image_.version = kVersion;
    if (library().begin(&image_, data, bytes) == 0) {
      const std::string why = image_.message;
      library().free(&image_);
      refuse("libpng: " + why);
    }
    const bool deep = (image_.format & kSixteenBits) != 0;
    if (deep || image_.width < 32 || image_.height < 32 || image_.width > 4096 || image_.height > 4096) {
      const std::string size = std::to_string(image_.width) + " x " + std::to_string(image_.height);
      library().free(&image_);
      refuse(deep ? "it has 16 bits a channel; 8 are possible" : "it is " + size + "; 32 x 32 to 4096 x 4096 is possible");
    }
  }
  ~Reader() { library().free(&image_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  CodedInfo info() const { return {image_.width, image_.height, (image_.format & kAlpha) != 0 ? 4 : 3, ACL_JPEG_CSS_UNKNOWN}; }

  std::vector<uint8_t> pixels() {
    image_.format = kColour | (image_.format & kAlpha);
    std::vector<uint8_t> made(size_t{image_.width} * image_.height * static_cast<size_t>(info().channels));
    if (library().finish(&image_, nullptr, made.data(), 0, nullptr) == 0 ||
        (image_.warning_or_error & (kWarning | kError)) == kError) {
      refuse(std::string("libpng: ") + image_.message);
    }
    return made;
  }

 private:
  PngImage image_{};
};

}  // namespace

CodedInfo png_info(const void* data, size_t bytes) { return Reader(data, bytes).info(); }

Image decode_png(const void* data, size_t bytes) {
  Reader reader(data, bytes);
  const CodedInfo info = reader.info();
  const std::vector<uint8_t> pixels = reader.pixels();
  const auto channels = static_cast<size_t>(info.channels);
  Image image{false, 0, 0, {}};
  for (size_t channel = 0; channel < channels; ++channel) {
    Plane& plane = image.planes.emplace_back(info.width, info.height);
    for (size_t i = 0; i < plane.pixels.size(); ++i) plane.pixels[i] = pixels[i * channels + channel];
  }
  return image;
}

}  // namespace softcann::media
