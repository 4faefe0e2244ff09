// SPDX-License-Identifier: Apache-2.0
#include "tests/systemd/attempts.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "tests/systemd/refusals.hpp"

namespace probe {
namespace {

Wrong capabilities(const char* set, const std::string& names) {
  std::uint64_t want = 0;
  for (const std::string& name : words(names)) {
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    cap_value_t value = 0;
    if (cap_from_name(lower.c_str(), &value) != 0) return "unknown here: " + name;
    want |= std::uint64_t{1} << value;
  }
  const std::uint64_t have = std::strtoull(status_of(set).c_str(), nullptr, 16);
  return expect(have == want, std::string(set) + " is " + status_of(set));
}

Wrong core_dump() {
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return "getrlimit fails";
  const rlimit more{1, 1};
  return first({expect(limit.rlim_cur == 0 && limit.rlim_max == 0, "a core dump may be written"),
                refused("a larger limit", setrlimit(RLIMIT_CORE, &more), {EPERM})});
}

Wrong address_families(const std::string& allowed) {
  const std::map<std::string, int> families = {{"AF_UNIX", AF_UNIX},
                                               {"AF_NETLINK", AF_NETLINK},
                                               {"AF_INET", AF_INET},
                                               {"AF_INET6", AF_INET6},
                                               {"AF_PACKET", AF_PACKET}};
  for (const auto& [name, family] : families) {
    const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (allowed.find(name + " ") != std::string::npos) {
      if (fd < 0) return name + " is refused";
      close(fd);
    } else if (Wrong wrong = refused(name.c_str(), fd, {EAFNOSUPPORT}); !wrong.empty()) {
      return wrong;
    }
  }
  return "";
}

// These calls would fail with another error if they reached the kernel.
Wrong system_calls() {
  return first({
      refused("ptrace", syscall(SYS_ptrace, PTRACE_PEEKDATA, INT_MAX, 0, 0), {EPERM}),
      refused("mount", syscall(SYS_mount, nullptr, nullptr, nullptr, 0, nullptr), {EPERM}),
      refused("bpf", syscall(SYS_bpf, 0, nullptr, 0), {EPERM}),
      refused("reboot", syscall(SYS_reboot, 0, 0, 0, nullptr), {EPERM}),
#ifdef __x86_64__
      refused("iopl", syscall(SYS_iopl, 4), {EPERM}),
#endif
  });
}

// A system call of another architecture. It may kill the caller, so a child makes it, and the result is shared.
Wrong other_architecture() {
#ifdef __x86_64__
  auto* shared =
      static_cast<volatile long*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  *shared = -1;
  const long child = syscall(SYS_clone, SIGCHLD | CLONE_VFORK, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) {
    long result = 20;  // getpid of i386
    asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    *shared = result;
    _exit(0);
  }
  return child < 0 ? "no process could be made" : expect(*shared < 0, "getpid of i386 was possible");
#else
  return "";
#endif
}

Wrong write_and_execute() {
  void* both = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* written = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return first({expect(both == MAP_FAILED, "memory to write and execute"),
                refused("memory to execute after it was written", mprotect(written, 4096, PROT_READ | PROT_EXEC),
                        {EPERM, EACCES})});
}

Wrong set_user_id() {
  const int fd = open("/tmp/probe", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return std::string("/tmp/probe: ") + std::strerror(errno);
  return refused("a set-user-id bit", fchmod(fd, 04700), {EPERM});
}

// Attempts that succeed do no harm: they set the current name and time.
long same_host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size());
  return sethostname(name.data(), std::strlen(name.data()));
}

Wrong clock_is_set() {
  struct timespec now {};
  clock_gettime(CLOCK_REALTIME, &now);
  struct timex change {};
  change.modes = ADJ_TICK;
  return first({refused("clock_settime", clock_settime(CLOCK_REALTIME, &now), {EPERM}),
                refused("adjtimex", syscall(SYS_adjtimex, &change), {EPERM})});
}

Wrong paths(const std::string& list, const std::function<Wrong(const std::string&)>& attempt) {
  for (std::string path : words(list))
    if (Wrong wrong = attempt(path[0] == '-' ? path.substr(1) : path); !wrong.empty()) return wrong;
  return "";
}

Wrong umask_is(const std::string& value) {
  const mode_t mine = umask(0);
  return expect(mine == std::strtoul(value.c_str(), nullptr, 8), "it is another one");
}

}  // namespace

const std::map<std::string, Attempt>& attempts() {
  static const std::map<std::string, Attempt> all = {
      {"User",
       [](auto&) {
         return first({refused("setuid", setuid(0), {EPERM}), expect(getuid() != 0, "it is root")});
       }},
      {"Group", [](auto&) { return expect(getgid() != 0, "it is root's"); }},
      {"DynamicUser", [](auto&) { return expect(getuid() != 0, "it is root"); }},
      {"CapabilityBoundingSet", [](auto& value) { return capabilities("CapBnd", value); }},
      {"AmbientCapabilities",
       [](auto& value) {
         return first({capabilities("CapAmb", value), capabilities("CapEff", value)});
       }},
      {"NoNewPrivileges", [](auto&) { return expect(status_of("NoNewPrivs") == "1", "not set"); }},
      {"ProtectSystem",
       [](auto&) {
         return first({no_file_made("/"), no_file_made("/etc"), no_file_made("/usr"), no_file_made("/var"),
                       no_file_made("/var/lib"), no_file_made("/run")});
       }},
      {"ProtectHome",
       [](auto&) {
         return markers_unseen({"/root", "/home"});
       }},
      {"PrivateTmp",
       [](auto&) {
         return markers_unseen({"/tmp", "/var/tmp"});
       }},
      {"PrivateMounts", [](auto&) { return own_namespace("mnt", "PROBE_MNT"); }},
      {"PrivateDevices",
       [](auto&) {
         return first(
             {not_opened("/dev/kmsg"), not_opened("/dev/mem"), not_opened("/dev/fuse"),
              refused("mknod", syscall(SYS_mknodat, AT_FDCWD, "/dev/probe", S_IFCHR | 0600, 0x103), {EPERM, EROFS})});
       }},
      {"UMask", umask_is},
      {"ProtectProc",
       [](auto&) {
         // It does not restrict CAP_SYS_PTRACE, and the broker must see all processes.
         return expect(status_of("CapEff") != "0000000000000000" || access("/proc/1/status", F_OK) != 0,
                       "/proc/1 is seen");
       }},
      {"ProcSubset", [](auto&) { return expect(access("/proc/stat", R_OK) == 0, "no /proc/stat"); }},
      {"ProtectKernelTunables",
       [](auto&) {
         return first({read_only("/proc/sys"), read_only("/sys")});
       }},
      {"ProtectKernelModules",
       [](auto&) {
         return first({refused("finit_module", syscall(SYS_finit_module, -1, "", 0), {EPERM}),
                       markers_unseen({"/usr/lib/modules"})});
       }},
      {"ProtectKernelLogs",
       [](auto&) {
         return first({not_opened("/dev/kmsg"), refused("syslog", syscall(SYS_syslog, 10, 0, 0), {EPERM})});
       }},
      {"ProtectControlGroups", [](auto&) { return read_only("/sys/fs/cgroup"); }},
      {"ProtectClock", [](auto&) { return clock_is_set(); }},
      {"ProtectHostname", [](auto&) { return refused("sethostname", same_host_name(), {EPERM}); }},
      {"PrivateNetwork", [](auto&) { return own_namespace("net", "PROBE_NET"); }},
      {"IPAddressDeny", [](auto&) { return refused("TCP", socket(AF_INET, SOCK_STREAM, 0), {EAFNOSUPPORT}); }},
      {"RestrictAddressFamilies", [](auto& value) { return address_families(value + " "); }},
      {"PrivateUsers", [](auto&) { return expect(getuid() != 65534, "all others are nobody"); }},
      {"RemoveIPC", [](auto&) { return own_namespace("ipc", "PROBE_IPC"); }},
      {"PrivateIPC", [](auto&) { return own_namespace("ipc", "PROBE_IPC"); }},
      {"RestrictNamespaces", [](auto&) { return refused("a user namespace", unshare(CLONE_NEWUSER), {EPERM}); }},
      {"RestrictRealtime",
       [](auto& value) {
         struct sched_param lowest {
           1
         };
         // "no" is the exception that the unit explains; LimitRTPRIO= decides whether it is granted.
         return value == "no" ? "" : refused("SCHED_FIFO", sched_setscheduler(0, SCHED_FIFO, &lowest), {EPERM});
       }},
      {"RestrictSUIDSGID", [](auto&) { return set_user_id(); }},
      {"LimitCORE", [](auto&) { return core_dump(); }},
      {"LockPersonality", [](auto&) { return refused("personality", personality(ADDR_NO_RANDOMIZE), {EPERM}); }},
      {"MemoryDenyWriteExecute", [](auto&) { return write_and_execute(); }},
      {"SystemCallArchitectures", [](auto&) { return other_architecture(); }},
      {"SystemCallFilter", [](auto&) { return system_calls(); }},
      {"SystemCallErrorNumber", [](auto&) { return system_calls(); }},
      {"ReadWritePaths", [](auto&) { return no_file_made("/var/lib/flightd/.."); }},
      {"ReadOnlyPaths", [](auto& value) { return paths(value, [](auto& path) { return read_only(path.c_str()); }); }},
      {"InaccessiblePaths",
       [](auto& value) {
         return paths(value, [](auto& path) {
           struct stat found {};
           // With CAP_DAC_READ_SEARCH it opens, but it is an empty file made by systemd.
           return expect(stat(path.c_str(), &found) != 0 || (found.st_mode & 0777) == 0, path + " is there");
         });
       }},
  };
  return all;
}

}  // namespace probe
