// A program on libatb as its users write them: an operation made, set up and executed, and what goes wrong. Says a line for each.
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "atb/atb_infer.h"
#include "atb/train_op_params.h"

namespace {

struct OnDevice {
  OnDevice(std::vector<int64_t> dims, const std::vector<float>& values) : OnDevice(std::move(dims), ACL_FLOAT, values.data()) {}
  OnDevice(std::vector<int64_t> dims, aclDataType type, const void* values) {
    tensor.desc.dtype = type;
    tensor.desc.format = ACL_FORMAT_ND;
    tensor.desc.shape.dimNum = dims.size();
    for (size_t i = 0; i < dims.size(); ++i) tensor.desc.shape.dims[i] = dims[i];
    tensor.dataSize = atb::Utils::GetTensorSize(tensor);
    aclrtMalloc(&tensor.deviceData, tensor.dataSize, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(tensor.deviceData, tensor.dataSize, values, tensor.dataSize, ACL_MEMCPY_HOST_TO_DEVICE);
  }
  ~OnDevice() { aclrtFree(tensor.deviceData); }
  std::vector<float> values() const {
    std::vector<float> found(tensor.dataSize / sizeof(float));
    aclrtMemcpy(found.data(), tensor.dataSize, tensor.deviceData, tensor.dataSize, ACL_MEMCPY_DEVICE_TO_HOST);
    return found;
  }
  atb::Tensor tensor;
};

void say(const char* what, int code) {
  const char* why = code != 0 ? aclGetRecentErrMsg() : nullptr;
  std::printf("%s: %d %s\n", what, code, why != nullptr ? why : "");
}

// The gradient of groups of weights: the first group has two rows, the second one.
void multiply_groups(atb::Context* context, aclrtStream stream) {
  atb::infer::GroupedMatmulInplaceAddParam param;
  atb::Operation* product = nullptr;
  say("A as it is", atb::CreateOperation(param, &product));
  param.transposeA = true;
  say("groups made", atb::CreateOperation(param, &product));
  const std::vector<int64_t> rows{2, 3};
  const OnDevice x({3, 2}, {1, 2, 3, 4, 5, 6}), dy({3, 1}, {1, 10, 100}), ends({2}, ACL_INT64, rows.data());
  const OnDevice sums({2, 2, 1}, {1, 1, 2, 2}), apart({2, 2, 1}, {0, 0, 0, 0});
  atb::VariantPack pack;
  pack.inTensors = {x.tensor, dy.tensor, ends.tensor, sums.tensor};
  pack.outTensors = {apart.tensor};
  uint64_t workspace = 1;
  say("groups apart", product->Setup(pack, workspace, context));
  pack.outTensors = {sums.tensor};
  say("groups setup", product->Setup(pack, workspace, context));
  say("groups execute", product->Execute(pack, nullptr, workspace, context));
  say("groups synchronize", aclrtSynchronizeStream(stream));
  const std::vector<float> found = sums.values();
  std::printf("%s %u %u sums %g %g %g %g\n", product->GetName().c_str(), product->GetInputNum(), product->GetOutputNum(),
              found[0], found[1], found[2], found[3]);
  atb::DestroyOperation(product);
}

void multiply(atb::Context* context, aclrtStream stream) {
  atb::infer::LinearParam param;
  param.transposeB = false;
  param.hasBias = false;
  param.enAccum = true;
  atb::Operation* linear = nullptr;
  say("made", atb::CreateOperation(param, &linear));
  const OnDevice x({2, 3}, {1, 2, 3, 4, 5, 6}), w({3, 2}, {1, 0, 0, 1, 1, 1}), sum({2, 2}, {10, 20, 30, 40});
  atb::VariantPack pack;
  pack.inTensors = {x.tensor, w.tensor, sum.tensor};
  pack.outTensors = {sum.tensor};
  uint64_t workspace = 1;
  say("before setup", linear->Execute(pack, nullptr, 0, context));
  say("setup", linear->Setup(pack, workspace, context));
  say("execute", linear->Execute(pack, nullptr, workspace, context));
  say("synchronize", aclrtSynchronizeStream(stream));
  const std::vector<float> found = sum.values();
  std::printf("%s %u %u sums %g %g %g %g\n", linear->GetName().c_str(), linear->GetInputNum(), linear->GetOutputNum(), found[0],
              found[1], found[2], found[3]);
  atb::SVector<atb::TensorDesc> in{x.tensor.desc, w.tensor.desc, sum.tensor.desc}, out;
  say("shapes", linear->InferShape(in, out));
  std::printf("result %lld %lld\n", static_cast<long long>(out[0].shape.dims[0]), static_cast<long long>(out[0].shape.dims[1]));
  say("twice set up", linear->Setup(pack, workspace, context));
  say("no context", linear->Setup(pack, workspace, nullptr));
  pack.inTensors.resize(2);
  say("too few", linear->Setup(pack, workspace, context));
  say("destroyed", atb::DestroyOperation(linear));
}

void attend(atb::Context* context, aclrtStream stream) {
  atb::infer::PagedAttentionParam param;
  param.headNum = 1;
  atb::Operation* attention = nullptr;
  say("attention", atb::CreateOperation(param, &attention));
  const OnDevice query({1, 1, 2}, {1, 0}), cache({1, 2, 1, 2}, {1, 0, 0, 1}), out({1, 1, 2}, {0, 0});
  OnDevice table({1, 1}, {0}), lengths({1}, {0});
  table.tensor.desc.dtype = lengths.tensor.desc.dtype = ACL_INT32;
  atb::VariantPack pack;
  pack.inTensors = {query.tensor, cache.tensor, cache.tensor, table.tensor, lengths.tensor};
  pack.outTensors = {out.tensor};
  uint64_t workspace = 0;
  say("lengths on the device", attention->Setup(pack, workspace, context));
  int32_t length = 1;
  pack.inTensors[4].deviceData = nullptr;
  pack.inTensors[4].hostData = &length;
  say("lengths on the host", attention->Setup(pack, workspace, context));
  length = 7;  // read by Setup
  say("attended", attention->Execute(pack, nullptr, workspace, context));
  say("synchronize", aclrtSynchronizeStream(stream));
  std::printf("first row %g %g\n", out.values()[0], out.values()[1]);
  length = 3;  // more than its table has pages for
  attention->Setup(pack, workspace, context);
  const int launched = attention->Execute(pack, nullptr, workspace, context);
  say("too long", launched != 0 ? launched : aclrtSynchronizeStream(stream));
  atb::DestroyOperation(attention);
  param.scaleType = atb::infer::PagedAttentionParam::SCALE_TYPE_LOGN;
  attention = nullptr;
  say("not served", atb::CreateOperation(param, &attention));
  std::printf("none made: %d\n", attention == nullptr);
}

}  // namespace

int main() {
  aclInit(nullptr);
  aclrtSetDevice(0);
  aclrtStream stream = nullptr;
  aclrtCreateStream(&stream);
  atb::Context* context = nullptr;
  say("context", atb::CreateContext(&context));
  context->SetExecuteStream(stream);
  multiply(context, stream);
  multiply_groups(context, stream);
  attend(context, stream);
  say("nothing destroyed", atb::DestroyOperation(nullptr));
  say("context destroyed", atb::DestroyContext(context));
  atb::SVector<int> array;
  array.reserve(100);
  for (int i = 0; i < 100; ++i) array.push_back(i);
  const atb::SVector<int> copy(array);
  std::printf("array %zu %d\n", copy.size(), copy[99]);
  aclrtDestroyStream(stream);
  aclFinalize();
}
