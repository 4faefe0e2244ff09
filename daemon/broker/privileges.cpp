// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/privileges.hpp"

#include <grp.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "libcore/perf/attr.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight::broker {
namespace {

struct FreeCapabilities {
  void operator()(cap_t caps) const { ::cap_free(caps); }
};
using Capabilities = std::unique_ptr<std::remove_pointer_t<cap_t>, FreeCapabilities>;

constexpr std::array kKept = {CAP_PERFMON, CAP_IPC_LOCK,          CAP_SYSLOG, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH,
                              CAP_CHOWN,   CAP_CHECKPOINT_RESTORE};

bool permitted(const Capabilities& caps, cap_value_t capability) {
  cap_flag_value_t set = CAP_CLEAR;
  return ::cap_get_flag(caps.get(), capability, CAP_PERMITTED, &set) == 0 && set == CAP_SET;
}

// Sets kKept, and CAP_SYS_ADMIN in the permitted set or in both sets.
Result<void> set_capabilities(bool sys_admin_permitted, bool sys_admin_effective) {
  const Capabilities old(::cap_get_proc());
  const Capabilities next(::cap_init());
  if (!old || !next) return sys_error(errno, "read the process's capabilities");
  std::vector<cap_value_t> keep;
  for (const cap_value_t capability : kKept)
    if (permitted(old, capability)) keep.push_back(capability);
  const auto set = [&](cap_flag_t flag) {
    if (keep.empty()) return 0;  // an ordinary user's broker: libcap rejects an empty list
    return ::cap_set_flag(next.get(), flag, static_cast<int>(keep.size()), keep.data(), CAP_SET);
  };
  const bool has_sys_admin = permitted(old, CAP_SYS_ADMIN);
  if (has_sys_admin && sys_admin_effective) keep.push_back(CAP_SYS_ADMIN);
  int failed = set(CAP_EFFECTIVE);
  if (has_sys_admin && sys_admin_permitted && !sys_admin_effective) keep.push_back(CAP_SYS_ADMIN);
  failed |= set(CAP_PERMITTED);
  if (failed != 0 || ::cap_set_proc(next.get()) != 0) return sys_error(errno, "drop capabilities");
  return {};
}

bool may_open_events() {
  const auto cpus = online_cpus();
  const int cpu = cpus && !cpus->empty() ? cpus->front() : 0;
  const auto opened = open_event(owner_attr(KernelFeatures{}), cpu, "probe");
  return opened || (opened.error().errno_value() != EACCES && opened.error().errno_value() != EPERM);
}

}  // namespace

Result<void> join_group(std::optional<gid_t> group) {
  if (!group) return {};
  if (::setgroups(1, &*group) == 0) return {};
  const int error_number = errno;
  // A unit sets the group with SupplementaryGroups= and has no CAP_SETGID.
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(static_cast<std::size_t>(count < 0 ? 0 : count));
  if (::getgroups(static_cast<int>(groups.size()), groups.data()) == count)
    for (const gid_t member : groups)
      if (member == *group) return {};
  if (::getegid() == *group) return {};
  return sys_error(error_number, "join the group {} (run as root, or give SupplementaryGroups= in the unit)", *group);
}

Result<void> drop_privileges() {
  if (auto dropped = set_capabilities(true, false); !dropped) return dropped;
  const bool sys_admin = !may_open_events();
  if (auto dropped = set_capabilities(sys_admin, sys_admin); !dropped) return dropped;
  // Only this program can use the remaining capabilities: executing a file adds none. (The process that reads the
  // configuration gets one: libcore/base/reading_child.cpp.)
  ::cap_reset_ambient();
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return sys_error(errno, "set no_new_privs");
  return {};
}

}  // namespace flight::broker
