// SOFTCANN_RECORD: what the streams of this process did, written so that another process can do it again.
//
// Note [Recording what streams do]
// Operators are written with all their arguments and with digests of their results; copies from the host, and what other
// processes or other libraries wrote, with their bytes; copies and fills on the device with places. A place is an address less
// the begin of the device's window, so it is the same in every process. Allocations are not written: who does it again needs
// memory at the places that are used, and no more. A record is written where its work has ended, before its stream goes on. Work
// that another work waits for is therefore written first, and work without an order between them uses other memory, or races.
// `python -m softcann replay` reads the file: a line of JSON a record, and the bytes that its "payload" counts behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fault/fault.h"

namespace softcann::call_record {

SOFTCANN_API extern const bool on;

// Of a device address, as clients or kernels have it; -1 for other memory.
SOFTCANN_API int64_t place(const void* p);
// Sixteen digits of the bytes' SHA-256.
SOFTCANN_API std::string digest(const void* data, size_t bytes);
// `fields` is the inside of a JSON object; kernels' addresses.
SOFTCANN_API void write(const std::string& fields, const void* payload = nullptr, size_t bytes = 0);

void copy(const char* entry, const void* dst, const void* src, size_t bytes);
void fill(const char* entry, const void* dst, size_t bytes, int value);
// Memory whose contents come from somewhere else: a collective, another library.
SOFTCANN_API void outside(const char* entry, const void* dst, size_t bytes);

// Of the task that runs on this thread; -1: none.
SOFTCANN_API int device();
SOFTCANN_API int stream();

// Around each task: one that wrote no record of its own is named, so that the reader knows what is missing.
void begin_task();
void end_task(const char* name);

}  // namespace softcann::call_record
