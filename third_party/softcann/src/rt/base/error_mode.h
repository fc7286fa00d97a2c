// Whose errors aclGetRecentErrMsg tells.
#pragma once

namespace softcann {

// true: the latest of any thread, as err_msg_mode 1 of aclInit's file asks for; false: those of the calling thread.
void share_errors(bool among_threads);

}  // namespace softcann
