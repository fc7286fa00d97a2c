// JPEGs and PNGs, up to the decoded picture. Without their libraries, which are loaded at run time, every picture is refused.
#include <cstdint>

#include "media/jpeg.h"
#include "media/png.h"
#include "rt/base/error.h"

using namespace softcann;

// The first byte says which of the two.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  auto* info = data[0] % 2 == 0 ? &media::jpeg_info : &media::png_info;
  auto* decode = data[0] % 2 == 0 ? &media::decode_jpeg : &media::decode_png;
  try {
    const media::CodedInfo found = info(data + 1, size - 1);
    // A header alone can claim 8192 x 8192: its rows are the decoder's, not the reader's, and one picture a run is enough.
    if (uint64_t{found.width} * found.height <= 1 << 16) decode(data + 1, size - 1);
  } catch (const Error&) {
  }
  return 0;
}
