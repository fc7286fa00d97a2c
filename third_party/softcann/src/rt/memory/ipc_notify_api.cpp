// Notifies that processes share, as clients call it.
#include <unistd.h>

#include <cstring>

#include "rt/base/error.h"
#include "rt/device/device.h"
#include "rt/stream/notify.h"

using namespace softcann;

namespace {

constexpr size_t kKeyRoom = 65;  // that CANN asks for

aclError no_notify(const char* entry, const void* handle) {
  return fail(handle == nullptr ? ACL_ERROR_INVALID_PARAM : ACL_ERROR_RT_INVALID_HANDLE, "%s: notify %p does not exist", entry,
              handle);
}

}  // namespace

extern "C" {

aclError aclrtNotifyGetExportKey(aclrtNotify notify, char* key, size_t len, uint64_t flags) {
  SOFTCANN_ENTRY(aclrtNotifyGetExportKey);
  SOFTCANN_REQUIRE(key, "key");
  Notify* found = find_notify(notify);
  if (found == nullptr) return no_notify("aclrtNotifyGetExportKey", notify);
  if (len < kKeyRoom) return fail(ACL_ERROR_INVALID_PARAM, "aclrtNotifyGetExportKey: room for %zu characters, not 65", len);
  if (flags != ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT && flags != ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtNotifyGetExportKey: flags %llu are not known",
                static_cast<unsigned long long>(flags));
  }
  if (found->imported) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtNotifyGetExportKey: the notify is imported itself");
  const auto state = state_of("aclrtNotifyGetExportKey", found);
  if (state == nullptr) return ACL_ERROR_RT_INVALID_HANDLE;
  IpcNotify* shared = state->share();
  if (shared == nullptr) {
    return fail(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "aclrtNotifyGetExportKey: this process shares too many notifies");
  }
  if (flags != ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT) shared->importers.reset(true);
  const ShareTable* table = own_table();
  const auto slot = static_cast<uint32_t>(shared - table->notifies);
  const ShareKey made{table->pid, table->nonce, slot, shared->serial.load(std::memory_order_acquire)};
  std::strncpy(key, made.text('n').c_str(), len);
  return ACL_SUCCESS;
}

aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t* pid, size_t num) {
  SOFTCANN_ENTRY(aclrtNotifySetImportPid);
  Notify* found = find_notify(notify);
  if (found == nullptr) return no_notify("aclrtNotifySetImportPid", notify);
  if (found->imported) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtNotifySetImportPid: the notify is imported");
  const auto state = state_of("aclrtNotifySetImportPid", found);
  if (state == nullptr) return ACL_ERROR_RT_INVALID_HANDLE;
  IpcNotify* shared = state->shared();
  if (shared == nullptr) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtNotifySetImportPid: the notify is not shared yet (aclrtNotifyGetExportKey)");
  }
  return shared->importers.set("aclrtNotifySetImportPid", pid, num);
}

aclError aclrtNotifyImportByKey(aclrtNotify* notify, const char* key, uint64_t flags) {
  SOFTCANN_ENTRY(aclrtNotifyImportByKey);
  SOFTCANN_REQUIRE(notify, "notify");
  SOFTCANN_REQUIRE(key, "key");
  SOFTCANN_CONTEXT(context, "aclrtNotifyImportByKey");
  // Devices reach each other here with or without it.
  if (flags != ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT && flags != ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtNotifyImportByKey: flags %llu are not known",
                static_cast<unsigned long long>(flags));
  }
  ShareKey parsed;
  if (!ShareKey::parse(key, 'n', &parsed)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtNotifyImportByKey: this is no key of aclrtNotifyGetExportKey");
  }
  aclError error = ACL_SUCCESS;
  ShareTable* table = open_table(parsed, "aclrtNotifyImportByKey", &error);
  if (table == nullptr) return error;
  IpcNotify* shared = parsed.slot < ShareTable::kNotifies ? &table->notifies[parsed.slot] : nullptr;
  if (shared == nullptr || !join_ipc(shared, parsed.serial)) {
    return fail(ACL_ERROR_RT_IPC_ERROR, "aclrtNotifyImportByKey: process %d has destroyed the notify", parsed.pid);
  }
  auto state = std::make_shared<NotifyState>(shared);
  if (!shared->importers.allow(parsed.pid)) {
    return fail(ACL_ERROR_RT_NO_PERMISSION, "aclrtNotifyImportByKey: process %d does not allow process %d to import the notify",
                parsed.pid, getpid());
  }
  *notify = make_notify(std::move(state), true);
  return ACL_SUCCESS;
}
}
