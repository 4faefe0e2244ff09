// SPDX-License-Identifier: Apache-2.0
#include "daemon/privileges.hpp"

#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <pwd.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "libcore/base/accounts.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/not_started.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {
namespace {

constexpr int kNiceLevel = -10;
// The shortest that the kernel grants. With 16 busy programs on 2 CPUs a request waited for one or two ticks of 4 ms in
// each of two threads.
constexpr std::chrono::microseconds kTimeSlice{100};

void raise_limit(__rlimit_resource_t resource, rlim_t wanted) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return;
  const rlimit both{.rlim_cur = wanted,
                    .rlim_max = wanted == RLIM_INFINITY ? wanted : std::max(wanted, limit.rlim_max)};
  if (::setrlimit(resource, &both) == 0) return;
  limit.rlim_cur = limit.rlim_max;  // up to the hard limit if CAP_SYS_RESOURCE is missing
  static_cast<void>(::setrlimit(resource, &limit));
}

using Names = std::span<const std::string_view>;

// Libraries that are not needed after the start: libsystemd loads them for sealed or compressed journals, the start
// for the lookup of users and groups. That is 1.3 MiB of code.
constexpr std::array<std::string_view, 5> kIdleLibraries{"/libgcrypt.so", "/libgpg-error.so", "/liblzma.so",
                                                         "/liblz4.so", "/libnss_"};
// Libraries that no request needs until its rings are copied. mlockall(2) locks what they use of their code, when it is
// used for the first time. The rest is 1 MiB.
constexpr std::array<std::string_view, 5> kLaterLibraries{"/libfmt.so", "/libm.so", "/libspdlog.so", "/libsystemd.so",
                                                          "/libzstd.so"};

bool is_one_of(Names names, const char* path) {
  return path != nullptr && std::any_of(names.begin(), names.end(), [&](std::string_view name) {
           return std::string_view(path).find(name) != std::string_view::npos;
         });
}

// Unlocks pages that mlockall(2) locked. Code is not modified in memory, so the kernel can read a page again from the
// file if it is needed.
void give_back(std::uintptr_t begin, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t from = begin & ~(page - 1);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is what an ELF header has
  void* const address = reinterpret_cast<void*>(from);
  if (::munlock(address, begin + bytes - from) == 0) ::madvise(address, begin + bytes - from, MADV_DONTNEED);
}

// Callback for dl_iterate_phdr(3): locks the executable segments of one loaded object, as far as a request needs them.
// Returns 0 or an errno, which ends the iteration.
int lock_code(dl_phdr_info* object, std::size_t /*size*/, void* /*unused*/) {
  if (is_one_of(kLaterLibraries, object->dlpi_name)) return 0;
  const bool idle = is_one_of(kIdleLibraries, object->dlpi_name);
  for (const auto& part : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    if (idle) {
      give_back(object->dlpi_addr + part.p_vaddr, part.p_memsz);
      continue;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): that is what an ELF header has
    if (::mlock(reinterpret_cast<const void*>(object->dlpi_addr + part.p_vaddr), part.p_memsz) != 0) return errno;
  }
  return 0;
}

Failure not_locked(int error_number) {
  return fail(static_cast<std::errc>(error_number),
              "flightd's own memory is not locked: {}; a snapshot can be late while memory is short: set "
              "LimitMEMLOCK=infinity",
              std::generic_category().message(error_number));
}

void add_note(std::string& notes, std::string_view note) {
  if (!notes.empty()) notes += "; ";
  notes += note;
}

// nullopt, also if it cannot be looked up: `notes` then says so.
std::optional<gid_t> find_group(const std::string& name, std::string& notes) {
  const auto found = group_named(name);
  if (found) return *found;
  add_note(notes,
           fmt::format("{}: its members have no access by this group until flightd is restarted", found.error().what));
  return std::nullopt;
}

}  // namespace

Result<Identity> find_identity(const std::string& user) {
  Identity out;
  // In this order: a directory server that hangs is asked for the one that the machine itself does not have.
  out.trusted_gid = find_group("flightd", out.note);
  out.trigger_gid = find_group("flightd-trigger", out.note);
  if (::geteuid() != 0) {
    out.uid = ::geteuid();
    out.trusted_uid = out.uid;
    out.gid = ::getegid();
    const auto self = user_numbered(out.uid);
    out.user = self && *self ? (*self)->name : fmt::format("uid {}", out.uid);
    return out;
  }
  auto account = user_named(user);
  const bool known = account && *account;
  if (known) {
    out.trusted_uid = (*account)->uid;
  } else {
    const std::string why = account ? fmt::format("the user {} does not exist", user) : account.error().what;
    // As `nobody`, flightd does not trust its own uid (no trusted_uid): other services share it.
    auto nobody = user_named("nobody");
    if (!nobody) return propagate(account ? nobody.error() : account.error());
    if (!*nobody)
      return fail(std::errc::invalid_argument,
                  "{}, and there is no user nobody: set \"user\" in the configuration to an existing user", why);
    add_note(out.note,
             fmt::format("{}: running as nobody; other services that run as nobody can read the snapshots: {}", why,
                         account ? "create that user" : "restart flightd when that user can be looked up"));
    account = std::move(nobody);
  }
  out.uid = (*account)->uid;
  out.gid = out.trusted_gid.value_or((*account)->gid);
  out.user = (*account)->name;
  if (out.uid == 0)
    add_note(out.note,
             "running as root because the configuration says so: the separation between flightd and its broker "
             "protects nothing");
  return out;
}

void raise_limits() {
  raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
  raise_limit(RLIMIT_RTPRIO, 1);
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNiceLevel));
  set_time_slice(kTimeSlice);
}

Result<void> lock_memory() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return sys_error(errno, "getrlimit RLIMIT_MEMLOCK");
  // Under memory pressure a request waited 101 ms for pages of the program itself; locked, the worst of 300 took 13 ms
  // (docs/performance.md). MCL_ONFAULT: unused stacks and arenas take no memory. Memory touched later is locked only if
  // RLIMIT_MEMLOCK is infinite.
  const int later = limit.rlim_cur == RLIM_INFINITY ? MCL_FUTURE : 0;
  if (::mlockall(MCL_CURRENT | MCL_ONFAULT | later) != 0) return not_locked(errno);
  // Code that has not run yet is not in memory, so it is locked explicitly.
  if (const int error_number = ::dl_iterate_phdr(&lock_code, nullptr); error_number != 0)
    return not_locked(error_number);
  return {};
}

Result<void> drop_capabilities() {
  const std::unique_ptr<std::remove_pointer_t<cap_t>, int (*)(void*)> none(::cap_init(), &::cap_free);
  if (!none || ::cap_set_proc(none.get()) != 0) return sys_error(errno, "drop capabilities");
  return {};
}

Result<void> forbid_inspection() {
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return sys_error(errno, "forbid others to look into this process");
  return {};
}

Result<void> drop_privileges(const Identity& identity) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return sys_error(errno, "set no_new_privs");
  if (::geteuid() != 0) return forbid_inspection();
  for (int cap = 0; cap <= CAP_LAST_CAP; ++cap) static_cast<void>(::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0));
  // Capabilities belong to a thread. A change of the user drops them in all threads. Here the user stays root; the
  // freeze thread, which was started before, drops its own.
  if (identity.uid == 0) {
    auto dropped = drop_capabilities();
    return dropped ? forbid_inspection() : dropped;
  }
  if (::setgroups(0, nullptr) != 0) return sys_error(errno, "drop supplementary groups");
  if (::setresgid(identity.gid, identity.gid, identity.gid) != 0)
    return sys_error(errno, "become group {}", identity.gid);
  if (::setresuid(identity.uid, identity.uid, identity.uid) != 0)
    return sys_error(errno, "become user {}", identity.user);
  if (::setresuid(0, 0, 0) == 0)
    return fail(std::errc::operation_not_permitted, "root privileges could be regained after the drop");
  return forbid_inspection();
}

Result<std::string> look_as(const Identity& identity, const std::function<std::string()>& look) {
  constexpr int kNoAnswer = 1, kNotDropped = 2;
  const std::string what = fmt::format("the process that looks as user {}", identity.user);
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return sys_error(errno, "make a pipe to {}", what);
  UniqueFd from(ends[0]), to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return not_started(errno, what);
  if (child == 0) {
    const auto dropped = drop_privileges(identity);
    const bool written = write_all(to.get(), dropped ? look() : dropped.error().what).has_value();
    ::_exit(!dropped ? kNotDropped : written ? 0 : kNoAnswer);
  }
  to = UniqueFd();
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = ::read(from.get(), part.data(), part.size())) != 0;) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  pid_t ended = 0;
  do ended = ::waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);
  if (ended != child) return sys_error(errno, "wait for {}", what);
  if (status == 0) return text;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotDropped)
    return fail(std::errc::operation_not_permitted, "{} could not take that user's rights: {}", what, text);
  return fail(
      std::errc::io_error, "{} ended without an answer ({})", what,
      WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("status {}", WEXITSTATUS(status)));
}

}  // namespace flight::daemon
