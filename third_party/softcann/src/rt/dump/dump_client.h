// What clients asked of dumps through acl/acl_dump.h.
#pragma once

#include <string>

namespace softcann::dump {

// Whether a callback takes the files, so that none are written.
bool client_takes_files();
// Gives it a file, or what comes behind one; false without a callback.
bool hand_to_client(const std::string& name, const std::string& content);

// What acldumpGetPath() says while a dump runs.
void set_paths(const std::string& path, bool is_of_overflows, bool is_of_failures);
void clear_paths();

}  // namespace softcann::dump
