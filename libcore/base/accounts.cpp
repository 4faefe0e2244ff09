// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/accounts.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <new>
#include <string_view>
#include <thread>

#include "libcore/base/close_inherited.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {
namespace {

// getpwnam(3) lists other numbers that only mean that the name was not found.
bool is_lookup_error(int error_number) {
  switch (error_number) {
    case EINTR:
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ETIMEDOUT:
    case EAGAIN:
      return true;
    default:
      return false;
  }
}

// The last source in nsswitch.conf decides: if `files` cannot open its file, and the next source does not know the
// name, the C library says that there is no such name. So this looks whether `files` can.
int why_not_found(int error_number, const char* file) {
  if (is_lookup_error(error_number)) return error_number;
  const UniqueFd opened(::open(file, O_RDONLY | O_CLOEXEC));
  const int now = opened ? 0 : errno;
  return is_lookup_error(now) ? now : 0;
}

// The result of a look-up, in memory that two processes share.
struct Found {
  bool answered = false, exists = false;
  bool lists_user = false;  // of a group
  int why = 0;              // the errno of a look-up that failed
  uid_t uid = 0;
  gid_t gid = 0;
  std::array<char, 256> name{};  // NUL-terminated; a user's name has at most 32 bytes (useradd(8))
};

Found found_user(const passwd* found, int error_number) {
  Found out{.answered = true, .exists = found != nullptr};
  if (found == nullptr) {
    out.why = why_not_found(error_number, "/etc/passwd");
    return out;
  }
  out.uid = found->pw_uid;
  out.gid = found->pw_gid;
  const std::string_view name(found->pw_name);
  std::copy_n(name.begin(), std::min(name.size(), out.name.size() - 1), out.name.begin());
  return out;
}

Found found_group(const group* found, int error_number) {
  Found out{.answered = true, .exists = found != nullptr};
  if (found != nullptr)
    out.gid = found->gr_gid;
  else
    out.why = why_not_found(error_number, "/etc/group");
  return out;
}

// It may be left behind, so it keeps no descriptor, lock or pipe of its parent.
void become_asker() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null)
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), standard);
  null.reset();
  close_inherited(STDERR_FILENO + 1);
}

bool ends_within(pid_t process, std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (::waitpid(process, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Asks one database of nsswitch.conf(5).
class Database {
 public:
  // `why` of the result: ETIMEDOUT: no answer; EIO: the process ended without one.
  Found ask(const std::function<Found()>& look, std::chrono::milliseconds patience) {
    if (std::chrono::steady_clock::now() < silent_until_) return no_answer(ETIMEDOUT);
    if (left_behind_ > 0 && !ends_within(left_behind_, std::chrono::milliseconds(0))) return no_answer(ETIMEDOUT);
    left_behind_ = -1;
    void* const memory = ::mmap(nullptr, sizeof(Found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return look();
    Found* const shared = new (memory) Found;
    const Found found = ask_by_child(look, patience, *shared);
    ::munmap(memory, sizeof(Found));
    return found;
  }

 private:
  static Found no_answer(int why) { return {.answered = true, .exists = false, .why = why}; }

  Found ask_by_child(const std::function<Found()>& look, std::chrono::milliseconds patience, Found& shared) {
    const pid_t child = ::fork();
    if (child < 0) return look();
    if (child == 0) {
      become_asker();
      shared = look();
      ::_exit(0);
    }
    if (ends_within(child, patience)) return shared.answered ? shared : no_answer(EIO);
    ::kill(child, SIGKILL);
    constexpr std::chrono::milliseconds kToDie(50);  // longer only where the kernel waits for a server
    if (!ends_within(child, kToDie)) left_behind_ = child;
    silent_until_ = std::chrono::steady_clock::now() + patience;
    return no_answer(ETIMEDOUT);
  }

  pid_t left_behind_ = -1;
  std::chrono::steady_clock::time_point silent_until_{};
};

Database& users() {
  static Database all;
  return all;
}

Database& groups() {
  static Database all;
  return all;
}

// `what`: "the user X".
Failure not_looked_up(const Found& found, const std::string& what, std::string_view database,
                      std::chrono::milliseconds patience) {
  if (found.why != ETIMEDOUT) return sys_error(found.why, "look up {}", what);
  return fail(std::errc::timed_out, "look up {}: no answer within {:g} s: a source of {} in /etc/nsswitch.conf hangs",
              what, static_cast<double>(patience.count()) / 1000, database);
}

Result<std::optional<UserAccount>> user_of(const Found& found, const std::string& what,
                                           std::chrono::milliseconds patience) {
  if (found.why != 0) return not_looked_up(found, what, "passwd", patience);
  if (!found.exists) return std::nullopt;
  return UserAccount{.uid = found.uid, .gid = found.gid, .name = found.name.data()};
}

}  // namespace

Result<std::optional<UserAccount>> user_named(const std::string& name, std::chrono::milliseconds patience) {
  const auto look = [&name] {
    errno = 0;
    const passwd* const found = ::getpwnam(name.c_str());
    return found_user(found, errno);
  };
  return user_of(users().ask(look, patience), "the user " + name, patience);
}

Result<std::optional<UserAccount>> user_numbered(uid_t uid, std::chrono::milliseconds patience) {
  const auto look = [uid] {
    errno = 0;
    const passwd* const found = ::getpwuid(uid);
    return found_user(found, errno);
  };
  return user_of(users().ask(look, patience), fmt::format("the user with the uid {}", uid), patience);
}

Result<std::optional<gid_t>> group_named(const std::string& name, std::chrono::milliseconds patience) {
  const auto look = [&name] {
    errno = 0;
    const group* const found = ::getgrnam(name.c_str());
    return found_group(found, errno);
  };
  const Found found = groups().ask(look, patience);
  if (found.why != 0) return not_looked_up(found, "the group " + name, "group", patience);
  if (!found.exists) return std::nullopt;
  return found.gid;
}

Result<std::optional<GroupAccount>> group_with_user(const std::string& name, uid_t uid,
                                                    std::chrono::milliseconds patience) {
  const auto look = [&name, uid] {
    errno = 0;
    const group* const found = ::getgrnam(name.c_str());
    Found out = found_group(found, errno);
    const passwd* const user = found == nullptr ? nullptr : ::getpwuid(uid);
    if (user == nullptr) return out;
    out.lists_user = user->pw_gid == found->gr_gid;
    for (char* const* member = found->gr_mem; *member != nullptr; ++member)
      out.lists_user = out.lists_user || std::string_view(*member) == user->pw_name;
    return out;
  };
  const Found found = groups().ask(look, patience);
  if (found.why != 0) return not_looked_up(found, "the group " + name, "group", patience);
  if (!found.exists) return std::nullopt;
  return GroupAccount{.gid = found.gid, .lists_user = found.lists_user};
}

}  // namespace flight
