// A rank of a program on libatb whose products communicate: client RANK TABLE, or client RANK alone. Four ranks, in pairs and all
// together. What rank r multiplies is i + 10 r and i - r, i the place in memory. Says a line for each result.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "atb/atb_infer.h"

namespace {

using Param = atb::infer::LinearParallelParam;

struct OnDevice {
  OnDevice(std::vector<int64_t> dims, float first) {
    tensor.desc.dtype = ACL_FLOAT;
    tensor.desc.format = ACL_FORMAT_ND;
    tensor.desc.shape.dimNum = dims.size();
    for (size_t i = 0; i < dims.size(); ++i) tensor.desc.shape.dims[i] = dims[i];
    tensor.dataSize = atb::Utils::GetTensorSize(tensor);
    std::vector<float> values(tensor.dataSize / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
    aclrtMalloc(&tensor.deviceData, tensor.dataSize, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(tensor.deviceData, tensor.dataSize, values.data(), tensor.dataSize, ACL_MEMCPY_HOST_TO_DEVICE);
  }
  ~OnDevice() { aclrtFree(tensor.deviceData); }
  void print(const char* what) const {
    std::vector<float> found(tensor.dataSize / sizeof(float));
    aclrtMemcpy(found.data(), tensor.dataSize, tensor.deviceData, tensor.dataSize, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("%s:", what);
    for (const float value : found) std::printf(" %g", value);
    std::printf("\n");
  }
  atb::Tensor tensor;
};

struct Rank {
  int rank;
  atb::Context* context = nullptr;
  aclrtStream stream = nullptr;

  Param param(Param::ParallelType type, int of = 2) const {
    Param made;
    made.type = type;
    made.rank = rank % of;
    made.rankSize = of;
    made.backend = "lcoc";
    made.commDomain = std::to_string(of) + std::to_string(rank / of);
    made.transWeight = false;
    return made;
  }

  // x is [4, 2] or `x_dims`, the weight [2, 3] or, to be transposed, [3, 2].
  void run(const char* what, const Param& param, std::vector<int64_t> out_dims, std::vector<int64_t> kept_dims = {},
           std::vector<int64_t> x_dims = {4, 2}) const {
    const auto place = static_cast<float>(rank);
    const std::vector<int64_t> sizes = param.transWeight ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{2, 3};
    const OnDevice x(std::move(x_dims), 10 * place), weight(sizes, -place), residual({3}, 100);
    const OnDevice out(std::move(out_dims), 0), kept(kept_dims.empty() ? std::vector<int64_t>{1} : kept_dims, 0);
    atb::VariantPack pack;
    pack.inTensors = {x.tensor, weight.tensor};
    if (param.hasResidual) pack.inTensors.push_back(residual.tensor);
    pack.outTensors = {out.tensor};
    if (!kept_dims.empty()) pack.outTensors.push_back(kept.tensor);
    atb::Operation* operation = nullptr;
    int code = atb::CreateOperation(param, &operation);
    uint64_t bytes = 0;
    void* workspace = nullptr;
    if (code == 0) code = operation->Setup(pack, bytes, context);
    if (code == 0 && bytes != 0) aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    if (code == 0) code = operation->Execute(pack, static_cast<uint8_t*>(workspace), bytes, context);
    if (code == 0) code = aclrtSynchronizeStream(stream);
    if (code != 0) {
      std::printf("%s: %d %s\n", what, code, aclGetRecentErrMsg());
    } else {
      out.print(what);
      if (!kept_dims.empty()) kept.print((std::string(what) + " kept").c_str());
      atb::SVector<atb::TensorDesc> in, described;
      for (const atb::Tensor& tensor : pack.inTensors) in.push_back(tensor.desc);
      operation->InferShape(in, described);
      std::printf("%s sizes:", what);
      for (uint64_t i = 0; i < described[0].shape.dimNum; ++i) {
        std::printf(" %lld", static_cast<long long>(described[0].shape.dims[i]));
      }
      std::printf("\n");
    }
    if (workspace != nullptr) aclrtFree(workspace);
    if (operation != nullptr) atb::DestroyOperation(operation);
  }

  void refused() const {
    Param param = this->param(Param::LINEAR_ALL_REDUCE);
    param.quantType = Param::QUANT_TYPE_PER_CHANNEL;
    run("int8", param, {4, 3});
    run("groups", this->param(Param::GMM_REDUCE_SCATTER_ALLTOALLVC), {4, 3});
    param = this->param(Param::LINEAR_ALL_REDUCE);
    param.backend = "other";
    run("backend", param, {4, 3});
    param.backend = "hccl";
    param.rank = 2;
    run("rank", param, {4, 3});
    param = this->param(Param::ALL_GATHER_LINEAR_REDUCE_SCATTER, 4);
    param.twoDimTPInfo.agDim = 2;
    param.twoDimTPInfo.rsDim = 4;
    run("dims", param, {4, 3});
  }
};

}  // namespace

int main(int argc, char** argv) {
  Rank me{std::atoi(argv[1])};
  aclInit(nullptr);
  aclrtSetDevice(me.rank);
  aclrtCreateStream(&me.stream);
  atb::CreateContext(&me.context);
  me.context->SetExecuteStream(me.stream);
  if (argc < 3) {  // nobody else is there
    me.run("alone", me.param(Param::LINEAR_ALL_REDUCE), {4, 3});
    return 0;
  }
  Param param = me.param(Param::LINEAR_ALL_REDUCE);
  param.hasResidual = true;
  param.transWeight = true;
  me.run("all_reduce", param, {4, 3});
  param.backend = "lccl";
  me.run("again", param, {4, 3});
  me.run("batch", param, {2, 2, 3}, {}, {2, 2, 2});
  param = me.param(Param::LINEAR_ALL_REDUCE, 4);
  param.backend = "hccl";
  param.rankTableFile = argv[2];
  me.run("table", param, {4, 3});
  me.run("scatter", me.param(Param::LINEAR_REDUCE_SCATTER), {2, 3});
  me.run("scatter one matrix", me.param(Param::LINEAR_REDUCE_SCATTER), {1, 2, 3}, {}, {1, 4, 2});
  param = me.param(Param::ALL_GATHER_LINEAR);
  me.run("gather", param, {8, 3});
  param.hasResidual = param.keepIntermediate = true;
  me.run("gather and keep", param, {8, 3}, {8, 2});
  me.run("wrong rows", param, {4, 3}, {8, 2});
  param = me.param(Param::PURE_LINEAR);
  param.hasResidual = true;
  me.run("pure", param, {4, 3});
  param = me.param(Param::ALL_GATHER_LINEAR_REDUCE_SCATTER, 4);
  param.twoDimTPInfo.agDim = param.twoDimTPInfo.rsDim = 2;
  me.run("inner gather", param, {4, 3});
  param.twoDimTPInfo.innerDimIsAg = 0;
  me.run("inner scatter", param, {4, 3});
  me.refused();
  atb::DestroyContext(me.context);
  aclFinalize();
}
