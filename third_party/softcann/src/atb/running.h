// An operation of ATB as what it is here: an operator of libopapi, prepared (GetWorkspaceSize) when the operation is set up, and
// launched when it is executed.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
#include "atb/atb_infer.h"
#pragma GCC visibility pop
#include "aclnn/acl_meta.h"
#include "boost/boost_ops.h"
#include "rt/base/error.h"

namespace softcann::atb {

using namespace ::atb;

class Running : public Operation {
 public:
  explicit Running(std::string name) : name_(std::move(name)) {}
  ~Running() override { drop(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  std::string GetName() const override { return name_; }
  // Of operations that functions of C made there are no more descriptions than these.
  Status InferShape(const SVector<TensorDesc>&, SVector<TensorDesc>&) const override;
  uint32_t GetInputNum() const override { return 0; }
  uint32_t GetOutputNum() const override { return 0; }
  Status Setup(const VariantPack&, uint64_t&, Context*) override;
  Status Execute(const VariantPack&, uint8_t* workspace, uint64_t workspaceSize, Context* context) override;

  // `first` and `second` are an operator's two phases.
  template <auto first, auto second, class... Arguments>
  Status prepare(uint64_t& workspace_size, Arguments&&... arguments) {
    drop();
    second_ = second;
    return first(arguments..., &workspace_size, &executor_) == ACL_SUCCESS ? NO_ERROR : ERROR_CANN_ERROR;
  }
  Status launch(void* workspace, uint64_t workspace_size, Context* context);

 private:
  void drop();

  std::string name_;
  aclnnStatus (*second_)(void*, uint64_t, aclOpExecutor*, aclrtStream) = nullptr;
  aclOpExecutor* executor_ = nullptr;
};

// A description of a tensor for the time of one call; null where the client left the tensor out.
class Described {
 public:
  explicit Described(const Tensor& tensor);
  ~Described() {
    if (made_ != nullptr) aclDestroyTensor(made_);
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  operator aclTensor*() const { return made_; }

 private:
  aclTensor* made_ = nullptr;
};

// Lengths of sequences, which are on the host, for the time of one call; null where there are none.
class Lengths {
 public:
  explicit Lengths(const Tensor& tensor);     // int32 in hostData
  explicit Lengths(const aclTensor* tensor);  // int32 in host memory
  explicit Lengths(const std::vector<int64_t>& lengths) : made_(aclCreateIntArray(lengths.data(), lengths.size())) {}
  ~Lengths() {
    if (made_ != nullptr) aclDestroyIntArray(made_);
  }
  Lengths(const Lengths&) = delete;
  Lengths& operator=(const Lengths&) = delete;
  operator const aclIntArray*() const { return made_; }
  static std::vector<int64_t> of(const aclTensor* tensor);

 private:
  aclIntArray* made_ = nullptr;
};

// Whether lengths can be read from it: recorded as an error otherwise.
Status check_lengths(const char* operation, const char* what, const Tensor& tensor);
Status check_lengths(const char* operation, const char* what, const aclTensor* tensor);

}  // namespace softcann::atb
