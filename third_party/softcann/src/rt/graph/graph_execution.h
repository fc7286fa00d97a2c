// How graphs run: Graph::run, and those that communicate.
#pragma once

#include <memory>

#include "rt/graph/capture.h"

namespace softcann {

// Note [Executions]
// The ranks count their collectives together, at the time of the client's call; so each execution of a graph makes its
// collectives anew when the client asks for it, and they get their numbers then.
// What was captured on several streams runs on as many: a send and a receive on two of them wait for peers who may come to them
// in another order. The captured stream's part runs on the stream of the execution, each other one's on a branch, a stream that
// is lent for the time. The parts are cut into steps where one stream waited for another, and events keep these in order.
// The first failure counts: what has not run by then is skipped, and collectives that are skipped tell the other ranks. The
// stream of the execution has the error, as if one task had failed there.
std::shared_ptr<const Steps> steps_of(const Graph& graph);
aclError execute_with_peers(const char* entry, const std::shared_ptr<Graph>& graph, Stream* stream);

}  // namespace softcann
