// Collectives whose parts are separate tensors, or of different sizes.
#include <numeric>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "acl/hccl.h"
#include "distributed/batch.h"
#include "distributed/enqueue.h"
#include "distributed/error.h"
#include "distributed/types.h"

namespace torch_npu::distributed {
namespace {

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;

bool same_numel(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor.numel() == tensors[0].numel(); });
}

int64_t total(const Tensors& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), int64_t{0},
                         [](int64_t sum, const auto& tensor) { return sum + tensor.numel(); });
}

// One tensor over memory in which the tensors lie one after the other, or an undefined one.
at::Tensor as_one(const Tensors& tensors) {
  const char* end = nullptr;
  for (const auto& tensor : tensors) {
    if (!tensor.is_contiguous() || !tensor.has_storage() || tensor.storage().data() != tensors[0].storage().data()) return {};
    const auto* begin = static_cast<const char*>(tensor.data_ptr());
    if (end && begin != end) return {};
    end = begin + tensor.nbytes();
  }
  return tensors[0].as_strided({total(tensors)}, {1}, tensors[0].storage_offset());
}

at::Tensor joined(const Tensors& tensors) {
  if (auto one = as_one(tensors); one.defined()) return one;
  Tensors flat;
  for (const auto& tensor : tensors) flat.push_back(tensor.reshape(-1));
  return at::cat(flat);
}

// Where the parts of a list are gathered: the list's own memory if it is in one piece.
class Parts {
 public:
  explicit Parts(const Tensors& tensors) : tensors_(tensors), flat_(as_one(tensors)), copies_(!flat_.defined()) {
    if (copies_) flat_ = at::empty({total(tensors)}, tensors[0].options());
  }
  const at::Tensor& flat() const { return flat_; }
  void write_back() const {
    if (!copies_) return;
    int64_t at = 0;
    for (const auto& tensor : tensors_) {
      tensor.copy_(flat_.narrow(0, at, tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    }
  }

 private:
  const Tensors& tensors_;
  at::Tensor flat_;
  bool copies_;
};

// Counts and displacements in HCCL's elements.
struct Layout {
  std::vector<uint64_t> counts, offsets;
  void append(int64_t elements, uint64_t factor) {
    offsets.push_back(counts.empty() ? 0 : offsets.back() + counts.back());
    counts.push_back(static_cast<uint64_t>(elements) * factor);
  }
};

Layout layout_of(const Tensors& tensors, uint64_t factor) {
  Layout layout;
  for (const auto& tensor : tensors) layout.append(tensor.numel(), factor);
  return layout;
}

// Elements for each rank: given by `splits` as rows, else in equal parts.
Layout layout_of(const at::Tensor& tensor, const std::vector<int64_t>& splits, int ranks, uint64_t factor, const char* side) {
  Layout layout;
  if (splits.empty()) {
    NPU_CHECK_ARGUMENT(tensor.dim() > 0 && tensor.size(0) % ranks == 0,
                       "Tensor's dim 0 does not divide equally across group size: all_to_all_single's ", side, " has ",
                       tensor.dim() ? tensor.size(0) : 0, " for ", ranks, " ranks; give split sizes");
    for (int rank = 0; rank < ranks; ++rank) layout.append(tensor.numel() / ranks, factor);
    return layout;
  }
  NPU_CHECK_ARGUMENT(static_cast<int>(splits.size()) == ranks,
                     "Number of tensor splits not equal to group size: all_to_all_single got ", splits.size(),
                     " split sizes of the ", side, " for ", ranks, " ranks");
  const auto rows = std::accumulate(splits.begin(), splits.end(), int64_t{0});
  NPU_CHECK_ARGUMENT(tensor.dim() > 0 && rows == tensor.size(0),
                     "Split sizes doesn't match total dim 0 size: all_to_all_single's split sizes of the ", side, " add up to ",
                     rows, ", its first dimension is ", tensor.dim() ? tensor.size(0) : 0);
  const auto row = rows ? tensor.numel() / rows : 0;
  for (const auto split : splits) {
    NPU_CHECK_ARGUMENT(split >= 0, "all_to_all_single: a split size of the ", side, " is ", split);
    layout.append(split * row, factor);
  }
  return layout;
}

void check_dtypes(const Tensors& tensors, const at::Tensor& like, const char* name) {
  for (const auto& tensor : tensors) {
    NPU_CHECK_ARGUMENT_TYPE(tensor.scalar_type() == like.scalar_type(), name, ": tensors of ", tensor.scalar_type(), " and ",
                            like.scalar_type());
  }
}

const Tensors& list_for(const std::vector<Tensors>& lists, int ranks, const at::Tensor& like, const char* name) {
  NPU_CHECK_ARGUMENT(lists.size() == 1 && static_cast<int>(lists[0].size()) == ranks,
                     "Tensor list input to scatter/gather must match number of collective participants: ", name,
                     " takes a list of ", ranks, " tensors, got ", lists.empty() ? 0 : lists[0].size());
  check_dtypes(lists[0], like, name);
  return lists[0];
}

// Where the ranks' parts are gathered: HCCL writes as much as comes.
void check_outputs(const Tensors& outputs, const at::Tensor& input, int rank, const char* name) {
  check_dtypes(outputs, input, name);
  NPU_CHECK_ARGUMENT(outputs[rank].numel() == input.numel(), name, ": ", input.numel(), " elements go in, there is room for ",
                     outputs[rank].numel(), " in this rank's output");
}

void all_gather_list(const Tensors& outputs, const at::Tensor& input, HcclComm comm, aclrtStream stream) {
  const Parts parts(outputs);
  const auto source = input.contiguous();
  const auto from = moved_buffer(source), to = moved_buffer(parts.flat());
  if (same_numel(outputs)) {
    if (from.count == 0) return;
    enqueue(acl::HcclAllGather, from.data, to.data, from.count, from.type, comm, stream);
  } else {
    const auto layout = layout_of(outputs, moved_factor(input.scalar_type()));
    enqueue(acl::HcclAllGatherV, from.data, from.count, to.data, layout.counts.data(), layout.offsets.data(), from.type, comm,
            stream);
  }
  parts.write_back();
}

}  // namespace

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                           const c10d::AllgatherOptions& options) {
  const auto& input = only(inputs, "all_gather");
  const auto& list = list_for(outputs, size_, input, "all_gather");
  check_outputs(list, input, rank_, "all_gather");
  return run({OpType::ALLGATHER, "all_gather", options.timeout, options.asyncOp}, inputs, list,
             [&](HcclComm comm, aclrtStream stream) { all_gather_list(list, input, comm, stream); });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                                     const c10d::AllgatherOptions& options) {
  // outputs[rank][i] is rank's part of inputs[i].
  NPU_CHECK_ARGUMENT(static_cast<int>(outputs.size()) == size_, "all_gather_coalesced: ", outputs.size(), " lists for ", size_,
                     " ranks");
  std::vector<Tensors> by_input(inputs.size());
  Tensors flat;
  for (const auto& list : outputs) {
    NPU_CHECK_ARGUMENT(list.size() == inputs.size(), "all_gather_coalesced: ", list.size(), " outputs for ", inputs.size(),
                       " inputs");
    for (size_t i = 0; i < list.size(); ++i) by_input[i].push_back(list[i]);
    flat.insert(flat.end(), list.begin(), list.end());
  }
  for (size_t i = 0; i < inputs.size(); ++i) check_outputs(by_input[i], inputs[i], rank_, "all_gather_coalesced");
  return run({OpType::ALLGATHER_COALESCED, "ALLGATHER_coalesced", options.timeout, options.asyncOp}, inputs, flat,
             [&](HcclComm comm, aclrtStream stream) {
               for (size_t i = 0; i < inputs.size(); ++i) all_gather_list(by_input[i], inputs[i], comm, stream);
             });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                                const c10d::ReduceScatterOptions& options) {
  const auto& output = only(outputs, "reduce_scatter");
  const auto& list = list_for(inputs, size_, output, "reduce_scatter");
  NPU_CHECK_ARGUMENT(list[rank_].numel() == output.numel(), "reduce_scatter: this rank's input has ", list[rank_].numel(),
                     " elements, the output ", output.numel());
  const Reduction reduction(options.reduceOp, output.scalar_type(), size_, "reduce_scatter");
  return run({OpType::REDUCE_SCATTER, "reduce_scatter", options.timeout, options.asyncOp}, list, outputs,
             [&](HcclComm comm, aclrtStream stream) {
               const auto given = joined(list);
               const auto source = reduction.scales_input() ? reduction.scaled(given) : given;
               const auto target = output.is_contiguous() ? output : at::empty(output.sizes(), output.options());
               const auto from = reduction.buffer(source), to = reduction.buffer(target);
               if (same_numel(list)) {
                 if (to.count == 0) return;
                 enqueue(acl::HcclReduceScatter, from.data, to.data, to.count, to.type, reduction.op(), comm, stream);
               } else {
                 const auto layout = layout_of(list, at::isComplexType(output.scalar_type()) ? 2 : 1);
                 enqueue(acl::HcclReduceScatterV, from.data, layout.counts.data(), layout.offsets.data(), to.data, to.count,
                         to.type, reduction.op(), comm, stream);
               }
               reduction.finish(target);
               if (!target.is_same(output)) output.copy_(target);
             });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                               std::vector<int64_t>& output_splits,
                                                               std::vector<int64_t>& input_splits,
                                                               const c10d::AllToAllOptions& options) {
  NPU_CHECK_ARGUMENT_TYPE(output.scalar_type() == input.scalar_type(), "all_to_all_single: the output is ", output.scalar_type(),
                          " and the input ", input.scalar_type());
  const auto factor = moved_factor(input.scalar_type());
  const auto sends = layout_of(input, input_splits, size_, factor, "input");
  const auto receives = layout_of(output, output_splits, size_, factor, "output");
  const bool even = input_splits.empty() && output_splits.empty();
  NPU_CHECK_ARGUMENT(!even || input.numel() == output.numel(), "all_to_all_single: ", input.numel(),
                     " elements go in, there is room for ", output.numel());
  return run({OpType::ALLTOALL_BASE, "all_to_all", options.timeout, options.asyncOp}, input, output,
             [&](HcclComm comm, aclrtStream stream) {
               const auto source = input.contiguous();
               const auto target = output.is_contiguous() ? output : at::empty(output.sizes(), output.options());
               const auto from = moved_buffer(source), to = moved_buffer(target);
               // Not HcclAlltoAll for equal parts: another rank may have been given the same sizes as splits.
               enqueue(acl::HcclAlltoAllV, from.data, sends.counts.data(), sends.offsets.data(), from.type, to.data,
                       receives.counts.data(), receives.offsets.data(), to.type, comm, stream);
               if (!target.is_same(output)) output.copy_(target);
             });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::alltoall(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllToAllOptions& options) {
  NPU_CHECK_ARGUMENT(static_cast<int>(outputs.size()) == size_ && static_cast<int>(inputs.size()) == size_,
                     "the size of output_tensors and worldsize must equal: all_to_all takes lists of ", size_, " tensors, got ",
                     inputs.size(), " inputs and ", outputs.size(), " outputs");
  NPU_CHECK_ARGUMENT(inputs[rank_].numel() == outputs[rank_].numel(), "all_to_all: this rank sends itself ",
                     inputs[rank_].numel(), " elements and expects ", outputs[rank_].numel());
  return run({OpType::ALLTOALL, "all_to_all", options.timeout, options.asyncOp}, inputs, outputs,
             [&](HcclComm comm, aclrtStream stream) { exchange(comm, stream, outputs, inputs); });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                        const c10d::GatherOptions& options) {
  const auto& input = only(inputs, "gather");
  const auto root = static_cast<int>(options.rootRank);
  NPU_CHECK_ARGUMENT(root >= 0 && root < size_, "gather: invalid root rank: ", root, " in a group of ", size_);
  static const Tensors none;
  NPU_CHECK_ARGUMENT(root == rank_ || outputs.empty() || outputs[0].empty(),
                     "gather: requires empty output on non-root, but rank ", rank_, " has one");
  const auto& list = root == rank_ ? list_for(outputs, size_, input, "gather") : none;
  return run({OpType::GATHER, "gather", options.timeout, options.asyncOp, root}, inputs, list,
             [&](HcclComm comm, aclrtStream stream) {
               Tensors to_root(static_cast<size_t>(size_), input.new_empty({0}));
               to_root[root] = input;
               exchange(comm, stream, list, to_root);
             });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                         const c10d::ScatterOptions& options) {
  const auto& output = only(outputs, "scatter");
  const auto root = static_cast<int>(options.rootRank);
  NPU_CHECK_ARGUMENT(root >= 0 && root < size_, "scatter: invalid root rank: ", root, " in a group of ", size_);
  static const Tensors none;
  NPU_CHECK_ARGUMENT(root == rank_ || inputs.empty() || inputs[0].empty(), "scatter: requires empty input on non-root, but rank ",
                     rank_, " has one");
  const auto& list = root == rank_ ? list_for(inputs, size_, output, "scatter") : none;
  return run({OpType::SCATTER, "scatter", options.timeout, options.asyncOp, root}, list, outputs,
             [&](HcclComm comm, aclrtStream stream) {
               Tensors from_root(static_cast<size_t>(size_), output.new_empty({0}));
               from_root[root] = output;
               exchange(comm, stream, from_root, list);
             });
}

}  // namespace torch_npu::distributed
