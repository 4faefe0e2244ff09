// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/config_child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <exception>

#include "libcore/base/close_inherited.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/config/gathered.hpp"
#include "libcore/config/parse.hpp"

namespace flight {
namespace {

// This process may be left behind while it waits for a server. So it closes the descriptors that it inherited, and the
// kernel ends it first if memory is short. Signals for the process group or the unit are for its parent, which ends it.
void become_child() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, kConfigChild.data());
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE}) ::signal(number, SIG_IGN);
  close_inherited(STDERR_FILENO + 1);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int standard : {STDIN_FILENO, STDERR_FILENO}) {
    if (null)
      ::dup2(null.get(), standard);
    else
      ::close(standard);
  }
  const UniqueFd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score) (void)!::write(score.get(), "0", 1);
}

// Whether the file system asks a server, which may not answer. One that is not known may do so. statfs(2) asks it, too.
bool asks_a_server(const std::string& path) {
  // linux/magic.h; XFS, ZFS, JFS and bcachefs have theirs in their own sources.
  constexpr std::array<std::uint32_t, 15> kLocal{
      0xef53,                  // ext2, ext3, ext4
      0x58465342,              // XFS
      0x9123683e,              // Btrfs
      0xf2f52010,              // F2FS
      0x2fc12fc1,              // ZFS
      0xca451a4e,              // bcachefs
      0x3153464a,              // JFS
      0x3434,                  // NILFS2
      0x4d44,                  // FAT
      0x01021994, 0x858458f6,  // tmpfs, ramfs
      0x73717368, 0xe0f5e1e2,  // Squashfs, EROFS
      0x9660,                  // ISO 9660
      0x794c7630,              // overlay: of a container or a live system
  };
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return true;
  const auto type = static_cast<std::uint32_t>(info.f_type);
  return std::find(kLocal.begin(), kLocal.end(), type) == kLocal.end();
}

// What another process waits for.
struct Hung {
  std::string path, as;
};

// False: the parent is gone.
bool gather(const std::string& file, const Hung& hung) {
  Gathered sent;  // a second look at the same place has the same result, as it has in the parent
  bool may_hang = false, broken = false;
  const auto say = [&](const std::string& message) {
    if (broken) return;
    const bool kept =
        sent.add(message).has_value();  // else there are too many: the parent reports that when it gets this one
    broken = !write_all(STDOUT_FILENO, message) || !kept;
  };
  const LookUp look = [&](Look how, const std::string& path) {
    if (auto known = sent.find(how, path)) return std::move(*known);
    say(Gathered::begins(how, path));
    const std::string as = broken ? std::string() : entry_identity(path);
    if (path == hung.path && as == hung.as) ::_exit(kConfigChildSame);
    say(Gathered::begins(how, path, as));
    // Without a parent, no process would end this one if the look hangs.
    if (broken) return Result<std::string>(fail(std::errc::broken_pipe, "the parent is gone"));
    auto result = look_up(how, path);
    if (result && (how == Look::text || how == Look::json_files)) may_hang |= asks_a_server(path);
    say(Gathered::found(how, path, result));
    return result;
  };
  static_cast<void>(file.empty() ? load_config(ConfigFolders{}, look) : load_config(file, {}, look));
  say(Gathered::complete(may_hang));
  return !broken;
}

}  // namespace

// Its parent waits for its end, so it leaves out what exit(3) does.
void run_config_child(int argc, char** argv) {
  if (argc < 2 || argv[1] != kReadConfigOption) return;
  become_child();
  try {
    const Hung hung = argc > 4 ? Hung{.path = argv[3], .as = argv[4]} : Hung{};
    ::_exit(gather(argc > 2 ? argv[2] : "", hung) ? 0 : 1);
  } catch (const std::exception&) {
    ::_exit(kConfigChildNoMemory);
  }
}

std::vector<std::string> config_child_command() {
  return {"/proc/self/exe", std::string(kConfigChild), std::string(kReadConfigOption)};
}

}  // namespace flight
