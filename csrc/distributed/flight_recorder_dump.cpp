// The recorder's dump, in the schema of PyTorch's flight recorder, version 2.10.
#include <map>
#include <set>
#include <sstream>

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include "distributed/flight_recorder.h"

namespace torch_npu::distributed {
namespace {

using Dict = c10::Dict<c10::IValue, c10::IValue>;
Dict new_dict() { return Dict(c10::AnyType::get(), c10::AnyType::get()); }
c10::List<c10::IValue> new_list() { return c10::List<c10::IValue>(c10::AnyType::get()); }

std::string join(const std::vector<uint64_t>& ranks) {
  std::string text;
  for (const auto rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return "[" + text + "]";
}

std::string pickled(const c10::IValue& value) {
  std::string bytes;
  torch::jit::Pickler pickler([&](const char* data, size_t size) { bytes.append(data, size); }, nullptr, nullptr, nullptr,
                              nullptr, false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  return bytes;
}

}  // namespace

// Builds the IValues of a dump.
class DumpWriter {
 public:
  DumpWriter(FlightRecorder& recorder, const DumpChoice& choice) : recorder_(recorder), choice_(choice) {}

  c10::IValue write() {
    auto dump = new_dict();
    dump.insert("version", "2.10");
    dump.insert("comm_lib_version", "hccl");
    const auto entries = recorder_.copy();
    dump.insert("pg_config", groups());
    dump.insert("pg_status", status(entries));
    if (choice_.collectives) dump.insert("entries", list(entries));
    return dump;
  }

 private:
  using Entry = FlightRecorder::Entry;

  c10::IValue groups() {
    auto all = new_dict();
    const core::MutexLock lock(recorder_.mutex_);
    for (const auto& group : recorder_.groups_) {
      auto one = new_dict();
      one.insert("name", group->name);
      one.insert("desc", group->description());
      one.insert("ranks", join(group->ranks));
      all.insert_or_assign(group->name, one);
    }
    return all;
  }

  static c10::IValue status(const std::vector<Entry>& entries) {
    struct Last {
      int64_t enqueued = -1, started = -1, completed = -1;
    };
    std::map<size_t, Last> groups;
    for (const auto& entry : entries) {
      auto& last = groups[entry.group->id];
      const auto sequence = static_cast<int64_t>(entry.collective_sequence);
      // On one stream, so the one after the last that is done has begun.
      if (last.completed == last.enqueued) last.started = sequence;
      last.enqueued = sequence;
      if (entry.completed_ns) last.completed = last.started = sequence;
    }
    auto all = new_dict();
    for (const auto& [id, last] : groups) {
      auto one = new_dict();
      one.insert("last_enqueued_collective", last.enqueued);
      one.insert("last_started_collective", last.started);
      one.insert("last_completed_collective", last.completed);
      all.insert(std::to_string(id), one);
    }
    return all;
  }

  c10::IValue list(const std::vector<Entry>& entries) {
    const auto frames = choice_.stacks ? symbolize(entries) : std::vector<c10::IValue>();
    auto all = new_list();
    std::set<size_t> waiting;  // groups of which an entry is unfinished
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto& entry = entries[i];
      const bool done = entry.completed_ns != 0;
      const bool first = !done && waiting.insert(entry.group->id).second;
      if (choice_.only_active && done) continue;
      auto one = describe(entry);
      one.insert("state", done ? "completed" : first ? "started" : "scheduled");
      if (!frames.empty()) one.insert("frames", frames[i]);
      all.push_back(one);
    }
    return all;
  }

  static Dict describe(const Entry& entry) {
    auto one = new_dict();
    one.insert("record_id", int64_t(entry.id));
    one.insert("pg_id", int64_t(entry.group->id));
    one.insert("process_group", std::make_tuple(entry.group->name, entry.group->description()));
    one.insert("collective_seq_id", int64_t(entry.collective_sequence));
    one.insert("p2p_seq_id", int64_t(entry.p2p_sequence));
    one.insert("op_id", int64_t(entry.operation_id));
    one.insert("profiling_name", name(entry));
    one.insert("time_created_ns", entry.created_ns);
    if (entry.duration_ms >= 0) one.insert("duration_ms", double(entry.duration_ms));
    size_t at = 0;
    auto sizes = [&](size_t count) {
      auto tensors = new_list();
      for (size_t t = 0; t < count; ++t) {
        auto dims = new_list();
        for (auto rank = entry.shapes[at++]; rank > 0; --rank) dims.push_back(entry.shapes[at++]);
        tensors.push_back(dims);
      }
      return tensors;
    };
    auto dtypes = [&](size_t from, size_t to) {
      std::vector<std::string> names;
      for (; from < to; ++from) names.emplace_back(c10::toString(entry.dtypes[from]));
      return names;
    };
    one.insert("input_sizes", sizes(entry.inputs));
    one.insert("input_dtypes", dtypes(0, entry.inputs));
    one.insert("output_sizes", sizes(entry.dtypes.size() - entry.inputs));
    one.insert("output_dtypes", dtypes(entry.inputs, entry.dtypes.size()));
    one.insert("time_discovered_started_ns", c10::IValue());
    one.insert("time_discovered_completed_ns", entry.completed_ns ? c10::IValue(entry.completed_ns) : c10::IValue());
    one.insert("retired", entry.retired);
    one.insert("timeout_ms", entry.timeout_ms);
    one.insert("is_p2p", entry.operation.point_to_point || entry.operation.is_message());
    one.insert("thread_id", c10::str(entry.thread));
    one.insert("thread_name", "");
    return one;
  }

  // As the analyser expects them: "hccl:send 0->1", "hccl:recv 1<-0".
  static std::string name(const Entry& entry) {
    std::string text = std::string("hccl:") + entry.operation.name;
    const auto self = std::to_string(entry.group->rank), peer = std::to_string(entry.operation.peer);
    if (entry.operation.type == c10d::OpType::SEND) text += " " + self + "->" + peer;
    if (entry.operation.type == c10d::OpType::RECV) text += " " + self + "<-" + peer;
    return text;
  }

  static std::vector<c10::IValue> symbolize(const std::vector<Entry>& entries) {
    std::vector<torch::CapturedTraceback*> stacks;
    for (const auto& entry : entries) {
      if (!entry.stack) return {};
      stacks.push_back(entry.stack.get());
    }
    const auto symbols = torch::symbolize(stacks);
    std::vector<c10::IValue> frames, result;
    for (const auto& frame : symbols.all_frames) {
      auto one = new_dict();
      one.insert("name", frame.funcname);
      one.insert("filename", frame.filename);
      one.insert("line", int64_t(frame.lineno));
      frames.emplace_back(std::move(one));
    }
    for (const auto& traceback : symbols.tracebacks) {
      auto list = new_list();
      for (const auto index : traceback) list.push_back(frames.at(index));
      result.emplace_back(std::move(list));
    }
    return result;
  }

  FlightRecorder& recorder_;
  DumpChoice choice_;
};

namespace {

void write_json(std::ostream& out, const c10::IValue& value) {
  const char* separator = "";
  if (value.isGenericDict()) {
    out << '{';
    for (const auto& item : value.toGenericDict()) {
      out << separator << '"' << item.key().toStringRef() << "\":";
      write_json(out, item.value());
      separator = ",";
    }
    out << '}';
  } else if (value.isList() || value.isTuple()) {
    out << '[';
    const auto items = value.isList() ? value.toListRef().vec() : std::vector<c10::IValue>(value.toTupleRef().elements());
    for (const auto& item : items) {
      out << separator;
      write_json(out, item);
      separator = ",";
    }
    out << ']';
  } else if (value.isString()) {
    out << '"';
    for (const char c : value.toStringRef()) {
      if (c == '"' || c == '\\') out << '\\';
      if (static_cast<unsigned char>(c) >= 0x20) {
        out << c;
      } else {
        constexpr char kHex[] = "0123456789abcdef";
        out << "\\u00" << kHex[c >> 4] << kHex[c & 15];
      }
    }
    out << '"';
  } else if (value.isBool()) {
    out << (value.toBool() ? "true" : "false");
  } else if (value.isInt()) {
    out << value.toInt();
  } else if (value.isDouble()) {
    out << value.toDouble();
  } else {
    out << "null";
  }
}

}  // namespace

std::string FlightRecorder::pickle(const DumpChoice& choice) { return pickled(DumpWriter(*this, choice).write()); }

std::string as_json(const c10::IValue& value) {
  std::ostringstream out;
  write_json(out, value);
  return out.str();
}

std::string FlightRecorder::json(const DumpChoice& choice) { return as_json(DumpWriter(*this, choice).write()); }

}  // namespace torch_npu::distributed
