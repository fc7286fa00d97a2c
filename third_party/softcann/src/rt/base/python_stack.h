// Where the client is in Python, for reports of the checks.
#pragma once

#include <string>

namespace softcann::check {

// Note [Stacks of Python]
// A client that calls CANN has mostly given up the interpreter's lock, and may hold locks of its own for which the holder of that
// lock waits: softcann must not take it. The interpreter's `faulthandler` needs none: in a handler of a signal it writes where
// the thread is that got the signal. It is told once, under the lock, of a signal that nobody else uses and of a file in memory;
// who wants its stack raises the signal and reads the file.

// Asks for it, if the process has an interpreter: at once when this thread holds the lock, else soon. Does nothing when called
// again.
void prepare_python_stacks();
// The calling thread's stack, the innermost call first, a line of `  File "FILE", line 1 in f` each; empty where it is not in
// Python, or faulthandler was not told yet.
std::string python_stack();
// "FILE:LINE" of the innermost call outside of installed packages, else of the innermost; empty as above.
std::string python_line();

}  // namespace softcann::check
