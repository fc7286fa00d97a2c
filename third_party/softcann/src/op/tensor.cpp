#include "op/tensor.h"

#include <algorithm>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>
#include <optional>

#include "op/formats.h"
#include "op/pool.h"
#include "rt/runtime.h"

namespace softcann::op {
namespace {

// As many of the widest type are just addressed by 63 bits.
constexpr int64_t most_elements = INT64_MAX / 16;

c10::DataPtr borrowed(void* view) { return {view, c10::Device(c10::kCPU)}; }

// A TensorImpl whose fields can be pointed at other memory in place; making a new one costs ten times as much.
class AliasImpl final : public c10::TensorImpl {
 public:
  explicit AliasImpl(c10::Storage&& storage)
      : TensorImpl(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), caffe2::TypeMeta::Make<float>()) {
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::CPU);  // no autograd, no version tracking
  }

  bool has_shape(const TensorSpec& spec) const {
    if (sizes_and_strides_.size() != spec.rank || !spec.strides || has_symbolic_sizes_strides_ || (!spec.dims && spec.rank)) {
      return false;
    }
    const int64_t *sizes = sizes_and_strides_.sizes_data(), *strides = sizes_and_strides_.strides_data();
    for (uint64_t i = 0; i < spec.rank; ++i) {
      if (sizes[i] != spec.dims[i] || strides[i] != spec.strides[i]) return false;
    }
    return true;
  }
  void set_shape(const TensorSpec& spec) {
    const c10::IntArrayRef sizes(spec.dims, spec.rank);
    if (spec.strides) {
      set_sizes_and_strides(sizes, {spec.strides, static_cast<size_t>(spec.rank)});
    } else {
      set_sizes_contiguous(sizes);
    }
  }
  void set_type(caffe2::TypeMeta type) { data_type_ = type; }
  aclTensor* owner = nullptr;  // whom it was made for
  void set_offset(int64_t offset) { storage_offset_ = offset; }
  int64_t element_count() const { return numel_; }
  // Which orders of memory the strides are: an output's must be the same before and after its kernel.
  uint8_t orders() const {
    return static_cast<uint8_t>(is_contiguous_ | is_channels_last_contiguous_ << 1 | is_channels_last_3d_contiguous_ << 2);
  }
  // What the client asked for, which kernels of ATen change where they see fit; of more dimensions than CANN has, the first.
  [[gnu::always_inline]] void keep_sizes() {
    made_rank_ = sizes_and_strides_.size();
    for (size_t i = 0; i < std::min(made_rank_, std::size(made_sizes_)); ++i) made_sizes_[i] = sizes_and_strides_.sizes_data()[i];
    made_contiguous_ = is_contiguous_;
    if (__builtin_expect(made_contiguous_, 1)) return;
    for (size_t i = 0; i < std::min(made_rank_, std::size(made_strides_)); ++i) {
      made_strides_[i] = sizes_and_strides_.strides_data()[i];
    }
  }
  bool was_one_element() const {
    return std::all_of(made_sizes_, made_sizes_ + std::min(made_rank_, std::size(made_sizes_)), [](int64_t n) { return n == 1; });
  }
  // What else a kernel that failed left there; of too many dimensions it stays.
  void restore_shape() {
    if (made_rank_ > std::size(made_sizes_)) return;
    const c10::IntArrayRef sizes(made_sizes_, made_rank_), strides(made_strides_, made_rank_);
    if (has_made_sizes() && (made_contiguous_ ? is_contiguous_ : strides_default() == strides)) return;
    made_contiguous_ ? set_sizes_contiguous(sizes) : set_sizes_and_strides(sizes, strides);
  }
  bool has_made_sizes() const {
    return sizes_and_strides_.size() == made_rank_ &&
           std::equal(made_sizes_, made_sizes_ + std::min(made_rank_, std::size(made_sizes_)), sizes_and_strides_.sizes_data());
  }
  bool only_user_of(const c10::StorageImpl* storage) const {
    return storage_.unsafeGetStorageImpl() == storage && storage_.use_count() == 1;
  }

 private:
  size_t made_rank_ = 0;
  int64_t made_sizes_[8] = {}, made_strides_[8] = {};
  bool made_contiguous_ = true;
};

void renew(aclTensor& made) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0, borrowed(nullptr), nullptr,
                                                       /*resizable=*/false);
  made.storage = storage.get();
  auto impl = c10::make_intrusive<AliasImpl>(c10::Storage(std::move(storage)));
  impl->owner = &made;
  made.impl = impl.get();
  made.tensor = at::Tensor(std::move(impl));
}

[[gnu::always_inline]] inline bool reusable(const aclTensor& made) {
  return made.impl && made.tensor.unsafeGetTensorImpl() == made.impl && made.tensor.use_count() == 1 &&
         static_cast<AliasImpl*>(made.impl)->only_user_of(made.storage);
}

// Elements of a contiguous tensor, if they can be addressed.
std::optional<int64_t> numel_of(const int64_t* dims, uint64_t rank) {
  int64_t numel = 1;
  for (uint64_t i = 0; i < rank; ++i) {
    if (dims[i] == 0) return 0;
    if (dims[i] < 0 || __builtin_mul_overflow(numel, dims[i], &numel) || numel > most_elements) return std::nullopt;
  }
  return numel;
}

// Elements from the first to the last that the view reaches; nothing for a negative size or stride, and where they are more
// than can be addressed.
std::optional<int64_t> extent_of(const TensorSpec& spec) {
  const auto numel = numel_of(spec.dims, spec.rank);
  if (!numel || *numel == 0 || !spec.strides) return numel;
  int64_t extent = 1;
  for (uint64_t i = 0; i < spec.rank; ++i) {
    int64_t reached = 0;
    if (spec.strides[i] < 0 || __builtin_mul_overflow(spec.dims[i] - 1, spec.strides[i], &reached) ||
        __builtin_add_overflow(extent, reached, &extent) || extent > most_elements) {
      return std::nullopt;
    }
  }
  return extent;
}

int64_t keep_storage_dims(aclTensor& made, const TensorSpec& spec) {
  int64_t* dims = made.few_storage_dims;
  if (__builtin_expect(spec.storage_rank > std::size(made.few_storage_dims), 0)) {
    made.many_storage_dims = std::make_unique<int64_t[]>(spec.storage_rank);
    dims = made.many_storage_dims.get();
  } else if (made.many_storage_dims) {
    made.many_storage_dims.reset();
  }
  made.storage_rank = static_cast<uint32_t>(spec.storage_rank);
  int64_t numel = 1;
  for (uint64_t i = 0; i < spec.storage_rank; ++i) numel *= dims[i] = spec.storage_dims[i];
  return numel;
}

// Where tensors of such a shape are kept.
[[gnu::always_inline]] inline PoolIndex shelf_of(const TensorSpec& spec) {
  uint32_t mixed = static_cast<uint32_t>(spec.rank) + static_cast<uint32_t>(spec.type) * 7;
  for (uint64_t i = 0; spec.dims && i < std::min<uint64_t>(spec.rank, 4); ++i) {
    mixed = mixed * 31 + static_cast<uint32_t>(spec.dims[i]) + (spec.strides ? static_cast<uint32_t>(spec.strides[i]) * 5 : 0);
  }
  return static_cast<PoolIndex>(tensor_pool + ((mixed * 0x9e3779b9U) >> 28));
}
static_assert(tensor_shelves == 1 << (32 - 28));

// Everything but the place and the memory is as the pooled object has it already: the usual case.
[[gnu::always_inline]] inline bool same_description(const aclTensor& made, const TensorSpec& spec) {
  if (made.type != spec.type || made.storage_rank != spec.storage_rank || made.many_storage_dims) return false;
  if (!spec.storage_dims && spec.storage_rank) return false;
  for (uint64_t i = 0; i < spec.storage_rank; ++i) {
    if (made.few_storage_dims[i] != spec.storage_dims[i]) return false;
  }
  return made.made_extent >= 0 && static_cast<AliasImpl*>(made.impl)->has_shape(spec);
}

[[gnu::always_inline]] inline void place(aclTensor& made, const TensorSpec& spec) {
  auto* impl = static_cast<AliasImpl*>(made.impl);
  impl->set_offset(spec.offset);
  impl->keep_sizes();
  made.storage->set_data_ptr_noswap(borrowed(device_view(spec.address)));
  made.address = spec.address;
  made.format = spec.format;
  made.made_numel = impl->element_count();
  made.made_orders = impl->orders();
  made.shape_is_result = false;
  const int64_t end = spec.offset + made.made_extent;
  // ATen's kernels load a complex number of 16 bytes at once.
  const bool aligned = made.item != 16 || reinterpret_cast<uintptr_t>(spec.address) % 16 == 0;
  made.defect = made.made_extent && !spec.address              ? Defect::address
                : !aligned                                     ? Defect::alignment
                : made.made_extent != 0 && end > made.capacity ? Defect::extent
                : !is_base_format(spec.format)                 ? Defect::extent  // where the elements lie, only the format knows
                                                               : Defect::none;
}

}  // namespace

aclTensor* descriptor_of_element(const at::Tensor& element) {
  const auto* impl = dynamic_cast<const AliasImpl*>(element.unsafeGetTensorImpl());
  return impl ? impl->owner : nullptr;
}
bool same_sizes(const aclTensor& made) { return static_cast<AliasImpl*>(made.impl)->has_made_sizes(); }
bool same_sizes(const at::Tensor& element) {
  const auto* impl = static_cast<const AliasImpl*>(element.unsafeGetTensorImpl());
  return impl->has_made_sizes() || (impl->element_count() == 1 && impl->was_one_element());
}
void restore_shape(const at::Tensor& tensor) {
  if (auto* impl = dynamic_cast<AliasImpl*>(tensor.unsafeGetTensorImpl())) impl->restore_shape();
}
bool same_order(const aclTensor& made) { return static_cast<AliasImpl*>(made.impl)->orders() == made.made_orders; }

namespace {

void assign(aclTensor& made, const TensorSpec& spec) {
  if (__builtin_expect(!reusable(made), 0)) {
    renew(made);
    made.made_extent = -1;
  }
  auto* impl = static_cast<AliasImpl*>(made.impl);
  if (made.made_extent < 0 || !impl->has_shape(spec)) {
    made.made_extent = *extent_of(spec);  // sensible() has looked
    impl->set_shape(spec);
  }
  auto scalar_type = to_scalar_type(spec.type);
  const bool known = scalar_type != at::ScalarType::Undefined;
  if (!known) scalar_type = at::kByte;
  const auto type = c10::scalarTypeToTypeMeta(scalar_type);
  impl->set_type(type);
  made.capacity = keep_storage_dims(made, spec);
  if (!spec.storage_dims) made.capacity = spec.offset + made.made_extent;
  made.storage->set_nbytes(static_cast<size_t>(made.capacity) * type.itemsize());
  made.type = spec.type;
  made.item = static_cast<int64_t>(type.itemsize());
  place(made, spec);
  if (!known) made.defect = Defect::type;
}

bool sensible(const TensorSpec& spec) {
  if ((spec.rank && !spec.dims) || (spec.storage_rank && !spec.storage_dims)) {
    fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreateTensor: the array of dimensions is null");
    return false;
  }
  if (spec.rank > max_dims || spec.storage_rank > max_dims) {
    fail(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: %llu dimensions; at most %d are supported",
         static_cast<unsigned long long>(std::max(spec.rank, spec.storage_rank)), max_dims);
    return false;
  }
  for (uint64_t i = 0; i < spec.rank; ++i) {
    if (spec.dims[i] < 0 || (spec.strides && spec.strides[i] < 0)) {
      fail(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: dimension %llu has a negative size or stride",
           static_cast<unsigned long long>(i));
      return false;
    }
  }
  if (spec.offset < 0 || spec.offset > most_elements) {
    fail(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: offset %lld", static_cast<long long>(spec.offset));
    return false;
  }
  if (!numel_of(spec.storage_dims, spec.storage_rank) || !extent_of(spec)) {
    fail(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: the sizes and strides reach further than memory can be addressed");
    return false;
  }
  return true;
}

// A description of numbers of four bits in bytes. See Note [Four bits].
struct InBytes {
  at::DimVector sizes, strides, storage;
  TensorSpec spec;
};

bool refuse_halves(const char* what) {
  fail(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: two numbers of four bits share a byte, but %s", what);
  return false;
}

bool halve(int64_t& number) {
  const bool even = number % 2 == 0;
  number /= 2;
  return even;
}

bool to_bytes(const TensorSpec& spec, InBytes& to) {
  if (!spec.dims || spec.rank == 0 || !spec.storage_dims || spec.storage_rank == 0) return refuse_halves("there is no dimension");
  const size_t rank = spec.rank;
  to.sizes.assign(spec.dims, spec.dims + rank);
  to.storage.assign(spec.storage_dims, spec.storage_dims + spec.storage_rank);
  if (spec.strides) {
    to.strides.assign(spec.strides, spec.strides + rank);
  } else {
    to.strides.assign(rank, 1);
    for (size_t i = rank - 1; i > 0; --i) to.strides[i - 1] = to.strides[i] * std::max<int64_t>(to.sizes[i], 1);
  }
  const auto pairs_along = [&](size_t dim) { return to.strides[dim] == 1 && to.sizes[dim] % 2 == 0; };
  const bool last = pairs_along(rank - 1);
  if (!last && (rank == 1 || !pairs_along(rank - 2))) return refuse_halves("the dense dimension has an odd size");
  const size_t dense = last ? rank - 1 : rank - 2;
  to.sizes[dense] /= 2;
  for (size_t i = 0; i < rank; ++i) {
    if (i != dense && !halve(to.strides[i]) && to.sizes[i] > 1) return refuse_halves("a stride is odd");
  }
  // That of one element may be anything, but 1 would say that the last is the dense dimension.
  if (!last) to.strides[rank - 1] = std::max<int64_t>(to.strides[rank - 1], 2);
  int64_t offset = spec.offset;
  if (!halve(offset)) return refuse_halves("the offset is odd");
  if (!halve(to.storage.back())) return refuse_halves("the storage has an odd size");
  to.spec = {to.sizes.data(),   rank,         spec.type, to.strides.data(), offset, spec.format, to.storage.data(),
             spec.storage_rank, spec.address, true};
  return true;
}
bool counts_numbers(const TensorSpec& spec) { return __builtin_expect(has_four_bits(spec.type), 0) && !spec.bytes; }

}  // namespace

ClientShape client_shape(const aclTensor& made) {
  ClientShape shape{at::DimVector(made.tensor.sizes()), at::DimVector(made.tensor.strides()),
                    at::DimVector(made.storage_dims(), made.storage_dims() + made.storage_rank), made.tensor.storage_offset()};
  if (!has_four_bits(made.type)) return shape;
  const size_t rank = shape.sizes.size(), dense = shape.strides[rank - 1] == 1 ? rank - 1 : rank - 2;
  shape.sizes[dense] *= 2, shape.storage.back() *= 2, shape.offset *= 2;
  for (size_t i = 0; i < rank; ++i) shape.strides[i] *= i == dense ? 1 : 2;
  return shape;
}

aclTensor* make_tensor(const TensorSpec& spec) {
  if (counts_numbers(spec)) {
    InBytes half;
    return to_bytes(spec, half) ? make_tensor(half.spec) : nullptr;
  }
  const PoolIndex shelf = shelf_of(spec);
  auto* made = take<aclTensor>(shelf);
  made->shelf = shelf;
  if (__builtin_expect(made->impl && reusable(*made) && made->defect != Defect::type && spec.offset >= 0 &&
                           spec.offset <= most_elements && same_description(*made, spec),
                       1)) {
    place(*made, spec);
    return open(made);
  }
  if (__builtin_expect(!sensible(spec), 0)) {
    give_back(shelf, made);
    return nullptr;
  }
  assign(*made, spec);
  return open(made);
}

TensorSpec spec_of(const aclTensor* tensor) {
  const auto sizes = tensor->tensor.sizes();
  return {sizes.data(),
          sizes.size(),
          tensor->type,
          tensor->tensor.strides().data(),
          tensor->tensor.storage_offset(),
          tensor->format,
          tensor->storage_dims(),
          tensor->storage_rank,
          tensor->address,
          true};
}

aclTensor* clone_tensor(const aclTensor* tensor, void* address) {
  TensorSpec spec = spec_of(tensor);
  spec.address = address;
  return make_tensor(spec);
}

aclTensorList* clone_list(const aclTensorList* list) {
  auto* made = open(take<aclTensorList>(tensor_list_pool));
  for (const aclTensor* element : list->elements) {
    made->elements.push_back(element ? clone_tensor(current(element), current(element)->address) : nullptr);
    made->tags.push_back(element ? made->elements.back()->tag : 0);
    made->values.push_back(element ? made->elements.back()->tensor : at::Tensor());
  }
  return made;
}

// Note [Changing a descriptor in use]
// Clients that cache descriptors point one at other memory as soon as phase 2 has returned, while the operator may
// still wait in a queue. The object in use stays as it is; the client's handle gets a replacement, which every later
// use of the handle means. A handle that is idle is changed in place.
aclnnStatus change_tensor(aclTensor* tensor, const TensorSpec& spec) {
  if (counts_numbers(spec)) {
    InBytes half;
    return to_bytes(spec, half) ? change_tensor(tensor, half.spec) : ACLNN_ERR_PARAM_INVALID;
  }
  if (!sensible(spec)) return ACLNN_ERR_PARAM_INVALID;
  // `spec` may point into the descriptor itself.
  const c10::SmallVector<int64_t, 8> dims(spec.dims, spec.dims + spec.rank);
  const c10::SmallVector<int64_t, 8> strides(spec.strides ? spec.strides : spec.dims,
                                             (spec.strides ? spec.strides : spec.dims) + spec.rank);
  const c10::SmallVector<int64_t, 8> storage(spec.storage_dims, spec.storage_dims + spec.storage_rank);
  TensorSpec own = spec;
  own.dims = dims.data();
  own.strides = spec.strides ? strides.data() : nullptr;
  own.storage_dims = spec.storage_dims ? storage.data() : nullptr;
  if (tensor->idle()) {
    if (tensor->replacement) destroy(std::exchange(tensor->replacement, nullptr));
    assign(*tensor, own);
    return ACLNN_SUCCESS;
  }
  aclTensor* made = make_tensor(own);
  if (tensor->replacement) destroy(tensor->replacement);
  tensor->replacement = made;
  return ACLNN_SUCCESS;
}

aclnnStatus set_address_of(aclTensor* tensor, void* address) {
  TensorSpec spec = spec_of(current(tensor));
  spec.address = address;
  return change_tensor(tensor, spec);
}

}  // namespace softcann::op
