// Graphs: what was submitted to streams while they were captured, to be run again as one task.
//
// Note [Capture]
// A stream that is captured takes tasks into a graph instead of running them. Another stream joins by waiting for an event
// that was recorded in the capture, and has to be joined again before the capture ends: the first stream must have waited for
// an event behind everything the other one took. The order in which tasks came is an order in which they can run, so a graph
// runs them one after the other, in a single task of the stream it is executed on. A graph that communicates does not: see
// Note [Executions].
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rt/stream/stream.h"

namespace softcann {

// Note [Task groups]
// What was captured between two marks on one stream is a group, whose tasks can be replaced: an update collects as many tasks of
// the same operators on another stream and puts them into the graph when that stream comes to it. An execution that is at work
// on the group then finishes the task it is at; whoever wants an order between the two makes it with an external event.
struct TaskGroup {
  std::mutex mutex;  // held while one of the tasks runs or is replaced
  std::vector<size_t> nodes;
};

struct Condition;  // condition.h
struct Flow;       // flow.h
struct Steps;      // graph_execution.h

// What aclmdlRI points to. Executions in flight keep it alive.
class Graph {
 public:
  struct Node {
    Task* task;
    int stream;
    TaskGroup* group;           // null: nobody will replace the task
    std::vector<size_t> after;  // nodes of other streams that it comes after, as far as none of its stream before it does
  };

  explicit Graph(uint32_t id);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  aclError run(bool skip) const;
  // Notes that it records the event, or waits for it, for others to see; false where it did already.
  bool show(uint32_t event);
  // Puts these tasks into the group, and the group's into `tasks`.
  void exchange(TaskGroup* group, std::vector<Task*>* tasks);

  const uint32_t id;
  std::string name;
  std::vector<Node> nodes;
  std::vector<std::unique_ptr<TaskGroup>> groups;
  std::vector<std::shared_ptr<Condition>> conditions;  // that were made for it
  std::vector<std::shared_ptr<Graph>> branches;        // of its conditional tasks
  bool is_branch = false;                              // runs within another one only
  uint64_t cost_ns = 0;
  int origin = -1;                     // the stream on which its capture began
  bool communicates = false;           // some of its tasks are made anew for each execution,
  std::shared_ptr<const Steps> steps;  // which runs these; once it is complete
  std::unique_ptr<Flow> flow;          // of one that was built, not captured
  std::atomic<bool> complete{false};   // its capture, or building, has ended

 private:
  std::mutex shown_mutex_;  // threads capture into one graph on several streams
  std::set<uint32_t> shown_;
};

// How many steps of each stream a point of the capture comes after.
using VectorClock = std::map<const Stream*, uint64_t>;

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  // Starts one on `stream`, into a new graph, or into a branch that has been captured into never.
  static aclError begin(const char* entry, Stream* stream, aclmdlRICaptureMode mode, std::shared_ptr<Graph> branch = nullptr);
  // Ends the one that began on `stream`; *graph is null where it failed.
  static aclError end(Stream* stream, std::shared_ptr<Graph>* graph);
  static aclError begin_group(Stream* stream);
  static aclError end_group(Stream* stream, std::shared_ptr<Graph>* graph, TaskGroup** group);
  // What `stream` takes until end_update() replaces the tasks of the group, in the order of the stream.
  static aclError begin_update(Stream* stream, const std::shared_ptr<Graph>& graph, TaskGroup* group);
  static aclError end_update(Stream* stream);
  // What the streams that are bound to it take becomes a graph; see Note [Built graphs]. They stay with it until they are
  // unbound.
  static std::shared_ptr<Graph> begin_build();
  static aclError bind(const std::shared_ptr<Graph>& graph, Stream* stream, bool head);
  static aclError unbind(const std::shared_ptr<Graph>& graph, Stream* stream);
  static aclError end_build(const std::shared_ptr<Graph>& graph);
  // Unbinds all of them.
  static void forget_build(const std::shared_ptr<Graph>& graph);
  static std::vector<Stream*> bound(const std::shared_ptr<Graph>& graph);
  // The graph that is being built of `stream`; empty where it is bound to none, or the building has ended.
  static std::shared_ptr<Graph> built_by(const Stream* stream);
  // The graph that `stream` is being captured into; empty if it is not, *valid whether nothing has gone wrong yet.
  static std::shared_ptr<Graph> graph_of(const Stream* stream, bool* valid);

  static void add(Stream* stream, Task* task, uint32_t cost_ns);
  // The point that `stream` has come to.
  static VectorClock now(const Stream* stream);
  // Makes `stream` come after the point; it joins the capture if it is not in it.
  aclError join(Stream* stream, const VectorClock& point);
  // Nothing can become of it any more. The first reason counts.
  void invalidate(const std::string& reason);

 private:
  friend aclError refuse_in_capture(Stream* stream, const char* entry);
  friend aclError refuse_unsafe(const char* entry);

  Stream* origin_ = nullptr;
  aclmdlRICaptureMode mode_ = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  std::thread::id thread_;
  std::shared_ptr<Graph> graph_;
  std::map<Stream*, VectorClock> streams_;
  std::map<Stream*, VectorClock> seen_;                    // the same when a stream took its latest task
  std::map<const Stream*, std::vector<size_t>> steps_of_;  // nodes of each stream
  std::map<Stream*, TaskGroup*> open_groups_;
  // Of an update, whose tasks come into graph_ first.
  std::shared_ptr<Graph> updated_;
  TaskGroup* updated_group_ = nullptr;
  std::string failure_;

  bool builds() const { return graph_->flow != nullptr; }
  // Whether aclmdlRICapture... began it.
  bool is_capture() const { return updated_ == nullptr && !builds(); }
  static std::shared_ptr<Capture> of_build(const std::shared_ptr<Graph>& graph);
  static std::shared_ptr<Capture> make(Stream* stream, aclmdlRICaptureMode mode, std::shared_ptr<Graph> graph);
  aclError check_end(Stream* stream) const;
  // Lets all streams go; the caller holds the lock of all captures.
  void finish();
};

// The handles that clients have of graphs: a new one; the graph of one, or null with the reason recorded.
aclmdlRI publish_graph(const std::shared_ptr<Graph>& graph);
std::shared_ptr<Graph> find_graph(const char* entry, aclmdlRI handle, aclError* error);

// A point of a capture, as an event keeps it.
struct CapturedPoint {
  std::weak_ptr<Capture> capture;
  VectorClock clock;
};

// For calls that a captured stream cannot serve: records the error, and the capture comes to nothing.
aclError refuse_in_capture(Stream* stream, const char* entry);
// For calls that wait for the device beside its streams: an error while a capture forbids them to this thread.
aclError refuse_unsafe(const char* entry);
// The calling thread's mode, which says whose captures forbid it something.
aclmdlRICaptureMode exchange_thread_mode(aclmdlRICaptureMode mode);

}  // namespace softcann

#define SOFTCANN_NOT_CAPTURED(stream, entry) \
  if (__builtin_expect((stream)->capture() != nullptr, 0)) return ::softcann::refuse_in_capture(stream, entry)
