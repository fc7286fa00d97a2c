// Copies and casts between base formats (Identity) are made here; the other operators that clients name are libopapi's: see
// Note [Operators by name].
#include "rt/single_op/op_call.h"

#include <dlfcn.h>

#include <cstring>

#include "rt/base/cast.h"
#include "rt/memory/check.h"
#include "rt/base/error.h"
#include "rt/stream/stream.h"
#include "rt/models/tensor_desc.h"

using namespace softcann;

namespace {

struct ConvertTask : Task {
  Conversion convert;
  void* dst;
  const void* src;
  int64_t count;  // elements, or bytes of a plain copy
};

aclError run_conversion(Task* self, bool skip) {
  const auto* task = static_cast<ConvertTask*>(self);
  if (skip) return ACL_SUCCESS;
  if (task->convert == nullptr) {
    std::memmove(task->dst, task->src, static_cast<size_t>(task->count));
  } else {
    task->convert(task->dst, task->src, task->count);
  }
  return ACL_SUCCESS;
}

// One input, one output, both in device memory and large enough for their descriptors.
aclError check_unary(const OpCall& call) {
  const auto [op, inputs, in, from, outputs, out, to, attributes] = call;
  if (inputs != 1 || outputs != 1 || in == nullptr || out == nullptr || from == nullptr || to == nullptr || in[0] == nullptr ||
      out[0] == nullptr || from[0] == nullptr || to[0] == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s takes one input and one output, with descriptor and buffer each", op);
  }
  if (elements_of(in[0]->dims) < 0 || elements_of(in[0]->dims) != elements_of(out[0]->dims)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %lld elements in, %lld out", op, static_cast<long long>(elements_of(in[0]->dims)),
                static_cast<long long>(elements_of(out[0]->dims)));
  }
  if (from[0]->size < aclGetTensorDescSize(in[0]) || to[0]->size < aclGetTensorDescSize(out[0])) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: a buffer (%zu, %zu bytes) is smaller than its descriptor says (%zu, %zu)", op,
                from[0]->size, to[0]->size, aclGetTensorDescSize(in[0]), aclGetTensorDescSize(out[0]));
  }
  if (const aclError code = check_device_range(from[0]->data, from[0]->size)) return code;
  check::mark_written_elsewhere(to[0]->data, to[0]->size);
  return check_device_range(to[0]->data, to[0]->size);
}

aclFormat layout_of(const aclTensorDesc& desc) {
  return desc.storage_format != ACL_FORMAT_UNDEFINED ? desc.storage_format : desc.format;
}

// Internal formats, whose elements lie in blocks: libopapi knows them.
bool in_blocks(const aclTensorDesc& desc) {
  switch (layout_of(desc)) {
    case ACL_FORMAT_NC1HWC0:
    case ACL_FORMAT_NC1HWC0_C04:
    case ACL_FORMAT_NDC1HWC0:
    case ACL_FORMAT_FRACTAL_Z:
    case ACL_FRACTAL_Z_3D:
    case ACL_FORMAT_FRACTAL_NZ:
      return true;
    default:
      return false;
  }
}

bool related_layouts(const aclTensorDesc& a, const aclTensorDesc& b) {
  const auto base = [](aclFormat format) {
    return format == ACL_FORMAT_UNDEFINED || format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NCL ||
           format == ACL_FORMAT_NCDHW;
  };
  const aclFormat first = layout_of(a), second = layout_of(b);
  return first == second || ((base(first) || in_blocks(a)) && (base(second) || in_blocks(b)));
}

struct NamedOperators {
  HasNamed has = nullptr;
  RunNamed run = nullptr;
};

const NamedOperators& named_operators() {
  static const NamedOperators found = [] {
    NamedOperators result;
    if (void* library = dlopen("libopapi.so", RTLD_NOW | RTLD_LOCAL)) {
      result.run = reinterpret_cast<RunNamed>(dlsym(library, run_named_symbol));
      if (result.run != nullptr) result.has = reinterpret_cast<HasNamed>(dlsym(library, has_named_symbol));
    }
    return result;
  }();
  return found;
}

struct NamedTask : Task {
  std::shared_ptr<NamedCall> call = std::make_shared<NamedCall>();
};

aclError run_named(Task* self, bool skip) {
  const std::unique_ptr<NamedTask> task(static_cast<NamedTask*>(self));
  return skip ? ACL_SUCCESS : named_operators().run(*task->call);
}

// Tensors that the client left out have no buffer, or a description without a type.
aclError take_tensors(const char* op, int count, const aclTensorDesc* const* descs, const aclDataBuffer* const* buffers,
                      std::vector<NamedTensor>& taken) {
  if (count < 0 || (count > 0 && (descs == nullptr || buffers == nullptr))) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %d tensors without descriptions or buffers", op, count);
  }
  for (int i = 0; i < count; ++i) {
    taken.push_back({});
    NamedTensor& tensor = taken.back();
    if (descs[i] == nullptr || descs[i]->type == ACL_DT_UNDEFINED) continue;
    tensor.type = descs[i]->type;
    tensor.format = descs[i]->format;
    tensor.dims = descs[i]->dims;
    size_t bytes = bytes_of(*descs[i]);
    if (in_blocks(*descs[i])) {
      tensor.blocks = layout_of(*descs[i]);
      tensor.capacity = elements_of(descs[i]->storage_dims);
      bytes = static_cast<size_t>(std::max<int64_t>(tensor.capacity, 0)) * bits_of(tensor.type) / 8;
    }
    const bool on_host = !descs[i]->constant.empty() || descs[i]->placement != ACL_MEMTYPE_DEVICE;
    const char* source = descs[i]->constant.data();
    if (descs[i]->constant.empty()) {
      if (buffers[i] == nullptr || (buffers[i]->data == nullptr && bytes > 0)) continue;
      if (buffers[i]->size < bytes) {
        return fail(ACL_ERROR_INVALID_PARAM, "%s: a buffer of %zu bytes is smaller than its description says, %zu", op,
                    buffers[i]->size, bytes);
      }
      source = static_cast<const char*>(buffers[i]->data);
    }
    if (on_host) {
      tensor.host.assign(source, source + bytes);
      tensor.data = tensor.host.data();
      tensor.bytes = bytes;
      continue;
    }
    if (source == nullptr) {  // no elements
      static char nowhere;
      tensor.data = &nowhere;
      continue;
    }
    tensor.bytes = buffers[i]->size;
    if (const aclError code = check_device_range(source, tensor.bytes)) return code;
    check::mark_written_elsewhere(source, bytes);
    tensor.data = device_view(source);
  }
  return ACL_SUCCESS;
}

aclError execute_named(const OpCall& op, aclrtStream stream, std::shared_ptr<const NamedCall>* made) {
  auto task = std::make_unique<NamedTask>();
  task->run = run_named;
  task->name = "an operator by name";
  NamedCall& call = *task->call;
  call.name = op.type;
  if (op.attributes != nullptr) call.attributes = *op.attributes;
  if (const aclError code = take_tensors(op.type, op.inputs, op.in, op.from, call.inputs)) return code;
  if (const aclError code = take_tensors(op.type, op.outputs, op.out, op.to, call.outputs)) return code;
  if (made != nullptr) *made = task->call;
  const aclError code = submit(stream, task.get(), kNeverInline);
  if (code == ACL_SUCCESS) task.release();
  return code;
}

bool converts(const char* type) {
  return std::strcmp(type, "Identity") == 0 || std::strcmp(type, "TransData") == 0 || std::strcmp(type, "Cast") == 0;
}

aclError convert(const OpCall& op, aclrtStream stream, std::shared_ptr<const NamedCall>* made) {
  if (const aclError code = check_unary(op)) return code;
  const aclTensorDesc &in = *op.in[0], &out = *op.out[0];
  const bool cast = std::strcmp(op.type, "Cast") == 0;
  if (!related_layouts(in, out)) {
    return fail(ACL_ERROR_FORMAT_NOT_MATCH, "%s: from format %d to %d is not supported, only between base and internal formats",
                op.type, static_cast<int>(layout_of(in)), static_cast<int>(layout_of(out)));
  }
  if ((in.type == out.type || cast) && (in_blocks(in) || in_blocks(out))) return execute_named(op, stream, made);
  auto task = std::make_unique<ConvertTask>();
  task->repeat = run_conversion;
  task->discard = [](Task* self) { delete static_cast<ConvertTask*>(self); };
  task->run = run_once;
  task->name = cast ? "Cast" : "Identity";
  task->dst = device_view(op.to[0]->data);
  task->src = device_view(op.from[0]->data);
  task->count = elements_of(out.dims);
  task->convert = nullptr;
  if (in.type == out.type) {
    task->count = static_cast<int64_t>(bytes_of(out));
  } else if (!cast || (task->convert = find_conversion(out.type, in.type)) == nullptr) {
    return fail(ACL_ERROR_UNSUPPORTED_DATA_TYPE, "%s: from data type %d to %d is not supported", op.type,
                static_cast<int>(in.type), static_cast<int>(out.type));
  }
  const auto cost = static_cast<uint32_t>(std::min<int64_t>(task->count, INT32_MAX));
  const aclError code = submit(stream, task.get(), cost);
  if (code == ACL_SUCCESS) task.release();
  return code;
}

}  // namespace

namespace softcann {

aclError check_given(const OpCall& call) {
  const auto check = [](int count, const auto* const* given, const char* what) {
    for (int i = 0; given != nullptr && i < count; ++i) {
      if (given[i] != nullptr) SOFTCANN_DESCRIBED(given[i], what);
    }
    return ACL_SUCCESS;
  };
  if (const aclError code = check(call.inputs, call.in, "an input's description")) return code;
  if (const aclError code = check(call.outputs, call.out, "an output's description")) return code;
  if (const aclError code = check(call.inputs, call.from, "an input's buffer")) return code;
  if (const aclError code = check(call.outputs, call.to, "an output's buffer")) return code;
  if (call.attributes != nullptr) SOFTCANN_DESCRIBED(call.attributes, "attr");
  return ACL_SUCCESS;
}

bool has_op(const char* type) { return converts(type) || (named_operators().has != nullptr && named_operators().has(type)); }

aclError execute_op(const char* entry, const OpCall& call, aclrtStream stream, std::shared_ptr<const NamedCall>* made) {
  if (call.type == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s: opType is a null pointer", entry);
  if (converts(call.type)) return convert(call, stream, made);
  if (has_op(call.type)) return execute_named(call, stream, made);
  return fail(ACL_ERROR_OP_NOT_FOUND, "%s: softcann has no operator %s of this interface; use the aclnn interface", entry,
              call.type);
}

aclError execute_op_and_wait(const char* entry, const OpCall& call, aclTensorDesc* const* out, aclrtStream stream) {
  std::shared_ptr<const NamedCall> made;
  if (const aclError code = execute_op(entry, call, stream, &made)) return code;
  if (const aclError code = aclrtSynchronizeStream(stream)) return code;
  for (int i = 0; made != nullptr && i < call.outputs; ++i) {
    if (out[i] != nullptr && out[i]->type != ACL_DT_UNDEFINED) out[i]->dims = made->outputs[i].dims;
  }
  return ACL_SUCCESS;
}

}  // namespace softcann
