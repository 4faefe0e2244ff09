// SPDX-License-Identifier: Apache-2.0
#include "daemon/privileges.hpp"

#include <grp.h>
#include <link.h>
#include <pwd.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <type_traits>

namespace flight {
namespace {

constexpr int kNiceLevel = -10;

void raise_limit(__rlimit_resource_t resource, rlim_t wanted) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return;
  const rlimit both{.rlim_cur = wanted,
                    .rlim_max = wanted == RLIM_INFINITY ? wanted : std::max(wanted, limit.rlim_max)};
  if (::setrlimit(resource, &both) == 0) return;
  limit.rlim_cur = limit.rlim_max;  // without CAP_SYS_RESOURCE: as far as the hard limit goes
  static_cast<void>(::setrlimit(resource, &limit));
}

// For dl_iterate_phdr(3): what is executable of one loaded object. An errno ends it.
int lock_code(dl_phdr_info* object, std::size_t /*size*/, void* /*unused*/) {
  for (const auto& part : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): that is what an ELF header has
    if (::mlock(reinterpret_cast<const void*>(object->dlpi_addr + part.p_vaddr), part.p_memsz) != 0) return errno;
  }
  return 0;
}

}  // namespace

Result<Identity> find_identity(const std::string& user) {
  Identity out;
  if (const group* trigger = ::getgrnam("flightd-trigger"); trigger != nullptr) out.trigger_gid = trigger->gr_gid;
  const group* flightd = ::getgrnam("flightd");
  if (flightd != nullptr) out.trusted_gid = flightd->gr_gid;
  if (::geteuid() != 0) {
    out.uid = ::geteuid();
    out.trusted_uid = out.uid;
    out.gid = ::getegid();
    const passwd* self = ::getpwuid(out.uid);
    out.user = self != nullptr ? self->pw_name : fmt::format("uid {}", out.uid);
    return out;
  }
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr) {
    entry = ::getpwnam("nobody");
    if (entry == nullptr)
      return fail(std::errc::invalid_argument,
                  "there is neither a user {} nor a user nobody: name one as \"user\" in the configuration", user);
    out.note = fmt::format(
        "there is no user {}: running as nobody, as others may do, who can then read the snapshots: make that user",
        user);
  } else {
    out.trusted_uid = entry->pw_uid;
  }
  out.uid = entry->pw_uid;
  out.gid = entry->pw_gid;
  out.user = entry->pw_name;
  if (flightd != nullptr) out.gid = flightd->gr_gid;
  if (out.uid == 0)
    out.note =
        "running as root because the configuration says so: the wall between flightd and its broker protects nothing";
  return out;
}

void raise_limits() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
  }
  raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
  raise_limit(RLIMIT_RTPRIO, 1);
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNiceLevel));
}

Result<void> lock_memory() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return sys_error(errno, "getrlimit RLIMIT_MEMLOCK");
  // MCL_ONFAULT: the room of stacks and arenas that nobody uses takes no memory.
  const int later = limit.rlim_cur == RLIM_INFINITY ? MCL_FUTURE : 0;
  constexpr const char* kSoWhat =
      "flightd's own memory is not locked: a snapshot can be late while memory is short; set LimitMEMLOCK=infinity";
  if (::mlockall(MCL_CURRENT | MCL_ONFAULT | later) != 0) return sys_error(errno, "{}", kSoWhat);
  // Code that has not run yet is on the disk.
  if (const int error_number = ::dl_iterate_phdr(&lock_code, nullptr); error_number != 0)
    return sys_error(error_number, "{}", kSoWhat);
  return {};
}

Result<void> drop_capabilities() {
  const std::unique_ptr<std::remove_pointer_t<cap_t>, int (*)(void*)> none(::cap_init(), &::cap_free);
  if (!none || ::cap_set_proc(none.get()) != 0) return sys_error(errno, "drop capabilities");
  return {};
}

Result<void> drop_privileges(const Identity& identity) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return sys_error(errno, "set no_new_privs");
  if (::geteuid() != 0) return {};
  for (int cap = 0; cap <= CAP_LAST_CAP; ++cap) static_cast<void>(::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0));
  if (identity.uid == 0) return drop_capabilities();
  if (::setgroups(0, nullptr) != 0) return sys_error(errno, "drop supplementary groups");
  if (::setresgid(identity.gid, identity.gid, identity.gid) != 0)
    return sys_error(errno, "become group {}", identity.gid);
  if (::setresuid(identity.uid, identity.uid, identity.uid) != 0)
    return sys_error(errno, "become user {}", identity.user);
  if (::setresuid(0, 0, 0) == 0)
    return fail(std::errc::operation_not_permitted, "root could be had again after it was dropped");
  return {};
}

}  // namespace flight
