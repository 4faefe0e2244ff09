// SPDX-License-Identifier: Apache-2.0
#include "daemon/privileges.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/capability.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

constexpr int kNiceLevel = -10;
constexpr mode_t kSnapshotsMode = 0770;
constexpr mode_t kStateMode = 0755;
constexpr mode_t kRuntimeMode = 0755;

void raise_limit(__rlimit_resource_t resource, rlim_t wanted) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return;
  const rlimit both{.rlim_cur = wanted,
                    .rlim_max = wanted == RLIM_INFINITY ? wanted : std::max(wanted, limit.rlim_max)};
  if (::setrlimit(resource, &both) == 0) return;
  limit.rlim_cur = limit.rlim_max;  // without CAP_SYS_RESOURCE: as far as the hard limit goes
  static_cast<void>(::setrlimit(resource, &limit));
}

// Only the folder itself is made, as its parents are the admin's: a mistyped path is an error, not a new tree.
Result<void> make_folder(const std::string& path, mode_t mode, const Identity& identity) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    const int why = errno;
    if (why == ENOENT)
      return sys_error(why, "make folder {}: the folder above it is missing; make it, or name another", path);
    return sys_error(why, "make folder {}", path);
  }
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return sys_error(errno, "look at folder {}", path);
  if (!S_ISDIR(info.st_mode)) return fail(std::errc::not_a_directory, "{} is no folder", path);
  if (::geteuid() == 0) {
    if (::chown(path.c_str(), identity.uid, identity.gid) != 0)
      return sys_error(errno, "give folder {} to {}", path, identity.user);
    if (::chmod(path.c_str(), mode) != 0) return sys_error(errno, "set the mode of folder {}", path);
  } else if (info.st_uid == ::geteuid() && ::chmod(path.c_str(), mode) != 0) {  // mkdir(2) heeds the umask
    return sys_error(errno, "set the mode of folder {}", path);
  } else if (::access(path.c_str(), W_OK | X_OK) != 0) {
    return sys_error(errno, "folder {} is not writable for {}", path, identity.user);
  }
  return {};
}

}  // namespace

Result<Identity> find_identity(const std::string& user) {
  Identity out;
  if (::geteuid() != 0) {
    out.uid = ::geteuid();
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
    out.note = fmt::format("there is no user {}: running as nobody", user);
  }
  out.uid = entry->pw_uid;
  out.gid = entry->pw_gid;
  out.user = entry->pw_name;
  if (const group* flightd = ::getgrnam("flightd"); flightd != nullptr) out.gid = flightd->gr_gid;
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

Result<void> make_folders(const std::string& state_dir, const std::string& runtime_dir, const Identity& identity) {
  if (auto made = make_folder(state_dir, kStateMode, identity); !made) return made;
  if (auto made = make_folder(state_dir + "/snapshots", kSnapshotsMode, identity); !made) return made;
  return make_folder(runtime_dir, kRuntimeMode, identity);
}

Result<UniqueFd> lock_folder(const std::string& folder, std::string_view option) {
  const std::string path = folder + "/flightd.lock";
  // Held for reading: a file that is open for writing would keep the admin from remounting the disk read-only.
  auto file = open_file(path, O_RDONLY | O_CREAT | O_NOFOLLOW, 0644);
  if (!file) return file;
  if (::flock(file->get(), LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    const auto pid = read_line(path);
    return sys_error(why, "another flightd{} uses {}; stop it, or choose another {}",
                     pid && !pid->empty() ? " (pid " + *pid + ")" : "", folder, option);
  }
  // The pid is for the message above alone, so a full disk is no reason not to start.
  if (const auto text = open_file(path, O_WRONLY | O_TRUNC | O_NOFOLLOW); text)
    static_cast<void>(write_all(text->get(), fmt::format("{}\n", ::getpid())));
  return file;
}

Result<void> drop_privileges(const Identity& identity) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return sys_error(errno, "set no_new_privs");
  if (::geteuid() != 0 || identity.uid == 0) return {};
  for (int cap = 0; cap <= CAP_LAST_CAP; ++cap) static_cast<void>(::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0));
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
