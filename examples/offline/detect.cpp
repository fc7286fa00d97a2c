// From a JPEG to boxes with labels in C++: acldvpp decodes and resizes, the .om of detect.py normalises (AIPP) and finds.
//
//   python examples/offline/detect.py shapes.jpg --example --keep folder
//   ./detect folder/detector.om shapes.jpg
//
// CMakeLists.txt builds it. What it prints is what detect.py prints.
#include <acl/acl.h>
#include <acl/acl_mdl.h>
#include <acl/ops/acl_dvpp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime.h"

namespace {

constexpr std::array<const char*, 3> kLabels = {"circle", "square", "triangle"};
constexpr float kLeast = 0.4F;
constexpr uint32_t kBilinear = 1;

struct DvppFree {
  void operator()(void* memory) const { acldvppFree(memory); }
};
using DvppMemory = std::unique_ptr<void, DvppFree>;

DvppMemory dvpp_memory(size_t size) {
  void* memory = nullptr;
  CHECK(acldvppMalloc(&memory, size));
  return DvppMemory(memory);
}

// A picture, YUV420SP, with memory of its own.
class Picture {
 public:
  explicit Picture(uint32_t bytes) : memory(dvpp_memory(bytes)), desc(acldvppCreatePicDesc()), bytes(bytes) {
    CHECK(acldvppSetPicDescData(desc, memory.get()));
    CHECK(acldvppSetPicDescSize(desc, bytes));
    CHECK(acldvppSetPicDescFormat(desc, PIXEL_FORMAT_YUV_SEMIPLANAR_420));
  }
  ~Picture() { acldvppDestroyPicDesc(desc); }
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  DvppMemory memory;
  acldvppPicDesc* desc;
  uint32_t bytes;
};

class Channel {
 public:
  Channel() : desc(acldvppCreateChannelDesc()), config(acldvppCreateResizeConfig()) {
    CHECK(acldvppCreateChannel(desc));
    CHECK(acldvppSetResizeConfigInterpolation(config, kBilinear));
  }
  ~Channel() {
    acldvppDestroyResizeConfig(config);
    acldvppDestroyChannel(desc);
    acldvppDestroyChannelDesc(desc);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  acldvppChannelDesc* desc;
  acldvppResizeConfig* config;
};

// The JPEG as a picture of size x size, whatever its proportions.
std::unique_ptr<Picture> picture_of(const std::string& jpeg, uint32_t size, aclrtStream stream) {
  const Channel channel;
  const auto length = static_cast<uint32_t>(jpeg.size());
  uint32_t bytes = 0;
  CHECK(acldvppJpegPredictDecSize(jpeg.data(), length, PIXEL_FORMAT_YUV_SEMIPLANAR_420, &bytes));
  const DvppMemory coded = dvpp_memory(length);
  CHECK(aclrtMemcpy(coded.get(), length, jpeg.data(), length, ACL_MEMCPY_HOST_TO_DEVICE));
  const Picture decoded(bytes);  // the decoder fills in its sizes
  CHECK(acldvppJpegDecodeAsync(channel.desc, coded.get(), length, decoded.desc, stream));
  CHECK(aclrtSynchronizeStream(stream));

  auto made = std::make_unique<Picture>(size * size * 3 / 2);
  CHECK(acldvppSetPicDescWidth(made->desc, size));
  CHECK(acldvppSetPicDescHeight(made->desc, size));
  CHECK(acldvppSetPicDescWidthStride(made->desc, size));
  CHECK(acldvppSetPicDescHeightStride(made->desc, size));
  CHECK(acldvppVpcResizeAsync(channel.desc, decoded.desc, made->desc, channel.config, stream));
  CHECK(aclrtSynchronizeStream(stream));
  return made;
}

class Model {
 public:
  explicit Model(const char* path)
      : description(aclmdlCreateDesc()), inputs(aclmdlCreateDataset()), outputs(aclmdlCreateDataset()) {
    CHECK(aclmdlLoadFromFile(path, &id));
    CHECK(aclmdlGetDesc(description, id));
    for (size_t i = 0; i < aclmdlGetNumOutputs(description); ++i) {
      void* memory = nullptr;
      const size_t size = aclmdlGetOutputSizeByIndex(description, i);
      CHECK(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST));
      CHECK(aclmdlAddDatasetBuffer(outputs, aclCreateDataBuffer(memory, size)));
    }
  }
  ~Model() {
    for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(outputs); ++i) {
      aclDataBuffer* buffer = aclmdlGetDatasetBuffer(outputs, i);
      aclrtFree(aclGetDataBufferAddr(buffer));
      aclDestroyDataBuffer(buffer);
    }
    for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(inputs); ++i) aclDestroyDataBuffer(aclmdlGetDatasetBuffer(inputs, i));
    aclmdlDestroyDataset(inputs);
    aclmdlDestroyDataset(outputs);
    aclmdlUnload(id);
    aclmdlDestroyDesc(description);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // AIPP's input is size x size x 3 / 2 bytes.
  uint32_t picture_size() const {
    return static_cast<uint32_t>(std::lround(std::sqrt(static_cast<double>(aclmdlGetInputSizeByIndex(description, 0)) * 2 / 3)));
  }

  void run(const Picture& picture) {
    CHECK(aclmdlAddDatasetBuffer(inputs, aclCreateDataBuffer(picture.memory.get(), picture.bytes)));
    CHECK(aclmdlExecute(id, inputs, outputs));
  }

  template <typename T>
  std::vector<T> output(size_t index) const {
    aclDataBuffer* buffer = aclmdlGetDatasetBuffer(outputs, index);
    std::vector<T> numbers(aclGetDataBufferSizeV2(buffer) / sizeof(T));
    const size_t bytes = numbers.size() * sizeof(T);
    CHECK(aclrtMemcpy(numbers.data(), bytes, aclGetDataBufferAddr(buffer), bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    return numbers;
  }

 private:
  uint32_t id = 0;
  aclmdlDesc* description;
  aclmdlDataset* inputs;
  aclmdlDataset* outputs;
};

std::string content_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void detect(const char* model_path, const char* image_path) {
  const std::string jpeg = content_of(image_path);
  const Runtime runtime;
  uint32_t width = 0, height = 0;
  int32_t components = 0;
  CHECK(acldvppJpegGetImageInfo(jpeg.data(), static_cast<uint32_t>(jpeg.size()), &width, &height, &components));
  Model model(model_path);
  const auto picture = picture_of(jpeg, model.picture_size(), runtime.stream);
  model.run(*picture);
  const auto boxes = model.output<float>(0), scores = model.output<float>(1);
  const auto labels = model.output<int64_t>(2);
  const std::array<float, 4> sizes = {static_cast<float>(width), static_cast<float>(height), static_cast<float>(width),
                                      static_cast<float>(height)};
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!(scores[i] > kLeast)) continue;
    std::printf("%s %.3f", kLabels.at(static_cast<size_t>(labels[i])), static_cast<double>(scores[i]));
    for (size_t side = 0; side < 4; ++side)
      std::printf(" %.1f", static_cast<double>(std::clamp(boxes[4 * i + side], 0.0F, 1.0F) * sizes[side]));
    std::printf("\n");
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s detector.om image.jpg\n", arguments[0]);
    return 2;
  }
  try {
    detect(arguments[1], arguments[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
