// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/processes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>

#include "libcore/base/directory.hpp"
#include "libcore/base/files.hpp"
#include "libcore/sysinfo/proc_maps.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxProcesses = 4U << 20U;        // PID_MAX_LIMIT
constexpr std::size_t kMaxCommBytes = 15;               // TASK_COMM_LEN without its NUL
constexpr std::uint64_t kKernelThread = 0x00200000;     // PF_KTHREAD of the "flags" in /proc/PID/stat
const auto kLoaded = std::chrono::steady_clock::now();  // of a forked broker: its parent

// The entries of `path` whose names are numbers, ascending. `more`: how many there are beyond `most`; null: nobody
// asks.
Result<std::vector<std::uint32_t>> numbered_entries(const std::string& path, std::size_t most, std::uint64_t* more) {
  auto directory = Directory::open(path);
  if (!directory) return propagate(directory.error());
  std::vector<std::uint32_t> numbers;
  const auto read = directory->each([&](const Directory::Entry& entry) {
    const std::string_view name = entry.name;
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc{} || end != name.data() + name.size()) return true;
    if (numbers.size() < most)
      numbers.push_back(number);
    else if (more != nullptr)
      ++*more;
    return more != nullptr || numbers.size() < most;
  });
  if (!read) return propagate(read.error());
  std::sort(numbers.begin(), numbers.end());  // /proc is sorted, a test's directory may not be
  return numbers;
}

// Reads a small /proc file at once, without an allocation: a scan reads several per process.
class SmallFile {
 public:
  explicit SmallFile(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const ssize_t count = fd ? ::read(fd.get(), bytes_.data(), bytes_.size()) : -1;
    if (count < 0) error_number_ = errno;
    if (count > 0) text_ = std::string_view(bytes_.data(), static_cast<std::size_t>(count));
  }
  [[nodiscard]] bool is_gone() const { return error_number_ == ENOENT || error_number_ == ESRCH; }
  [[nodiscard]] std::string_view text() const { return text_; }
  [[nodiscard]] bool is_full() const { return text_.size() == bytes_.size(); }

 private:
  std::array<char, 2048> bytes_;  // only the bytes that were read are used
  std::string_view text_;
  int error_number_ = 0;
};

struct Stat {
  std::string comm;
  char state = 0;
  std::uint32_t parent = 0;
  std::uint64_t flags = 0, user_ticks = 0, system_ticks = 0, threads = 0, start_ticks = 0;
};

// In stat, a newline in the name is written as \n and a backslash as \\ .
std::string unescape_comm(std::string_view text) {
  std::string comm;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == 'n' || text[i + 1] == '\\');
    if (escape) ++i;
    comm += escape && text[i] == 'n' ? '\n' : text[i];
  }
  comm.resize(std::min(comm.size(), kMaxCommBytes));  // kernel workers append their work item
  return comm;
}

// The name that the kernel recorded when it made this worker. /proc adds the work item of this moment:
// "kworker/u8:2-flush", "kworker/0:1H+kblockd". The name of a rescuer, "kworker/R-scsi_tmf_0", has a '-' of its own, so
// it is left as it is (wq_worker_comm() in kernel/workqueue.c).
void cut_work_item(std::string& comm) {
  constexpr std::string_view kWorker = "kworker/", kRescuer = "kworker/R";
  if (!comm.starts_with(kWorker) || comm.starts_with(kRescuer)) return;
  comm.resize(std::min(comm.size(), comm.find_first_of("-+")));
}

// proc_pid_stat(5): "PID (COMM) STATE PPID …"; COMM may contain blanks and brackets.
std::optional<Stat> parse_stat(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open || close + 3 > text.size())
    return std::nullopt;
  Stat stat;
  stat.comm = unescape_comm(text.substr(open + 1, close - open - 1));
  stat.state = text[close + 2];
  std::string_view rest = text.substr(close + 3);
  const auto field = [&stat](int number) -> std::uint64_t* {
    switch (number) {
      case 9:
        return &stat.flags;
      case 14:
        return &stat.user_ticks;
      case 15:
        return &stat.system_ticks;
      case 20:
        return &stat.threads;
      case 22:
        return &stat.start_ticks;
      default:
        return nullptr;
    }
  };
  for (int number = 4; number <= 22; ++number) {
    const std::size_t begin = rest.find_first_not_of(' ');
    if (begin == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(begin);
    std::from_chars_result result{};
    if (std::uint64_t* value = field(number); value != nullptr)
      result = std::from_chars(rest.data(), rest.data() + rest.size(), *value);
    else if (number == 4)
      result = std::from_chars(rest.data(), rest.data() + rest.size(), stat.parent);
    if (result.ec != std::errc{}) return std::nullopt;
    rest.remove_prefix(std::min(rest.find(' '), rest.size()));
  }
  return stat;
}

// "0::/path" is the v2 hierarchy, "4:cpu,perf_event:/path" v1's.
std::string cgroup_of(std::string_view text) {
  std::string_view of_perf_event;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("0::")) return std::string(line.substr(3));
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    if (controllers.find(",perf_event,") != std::string::npos) of_perf_event = line.substr(second + 1);
  }
  return std::string(of_perf_event);
}

std::string cgroup_of_process(const std::string& process) {
  const SmallFile file(process + "/cgroup");
  if (!file.is_full()) return cgroup_of(file.text());
  return cgroup_of(read_file(process + "/cgroup", 1U << 20U).value_or(""));  // many hierarchies, deep paths
}

std::uint64_t ticks_per_second() {
  static const long kTicks = ::sysconf(_SC_CLK_TCK);
  return kTicks > 0 ? static_cast<std::uint64_t>(kTicks) : 100;
}

std::uint64_t ns_of_ticks(std::uint64_t ticks) {
  const std::uint64_t per_second = ticks_per_second();
  return ticks / per_second * 1'000'000'000ULL + ticks % per_second * 1'000'000'000ULL / per_second;
}

void read_other_threads(const std::string& process, ProcessInfo& info, std::size_t most) {
  const auto tids = numbered_entries(process + "/task", most, &info.threads_left_out);
  if (!tids) {
    const int reason = tids.error().errno_value();
    info.threads_cut = reason != ENOENT && reason != ESRCH;
    return;
  }
  for (const std::uint32_t tid : *tids) {
    if (tid == info.pid) continue;
    const SmallFile comm(fmt::format("{}/task/{}/comm", process, tid));
    if (comm.text().empty()) {  // gone; a living thread's has a newline at least
      info.threads_cut |= !comm.is_gone();
      continue;
    }
    const std::string_view name = comm.text().substr(0, comm.text().size() - 1);
    info.threads.push_back({tid, std::string(name.substr(0, kMaxCommBytes))});
  }
}

}  // namespace

Result<std::vector<std::uint32_t>> list_processes(const std::string& root) {
  auto pids = numbered_entries(root + "/proc", kMaxProcesses, nullptr);
  if (!pids) return wrap(pids.error(), "list the processes");
  return pids;
}

Presence read_stat(std::uint32_t pid, ProcessStat& out, const std::string& root) {
  const std::string process = fmt::format("{}/proc/{}", root, pid);
  const SmallFile file(process + "/stat");
  auto stat = parse_stat(file.text());
  if (!stat) return file.is_gone() ? Presence::gone : Presence::unknown;
  const bool leader_exited = stat->state == 'Z' || stat->state == 'X';
  if (leader_exited && stat->threads <= 1) return Presence::gone;
  struct stat owner {};
  out.pid = pid;
  out.parent = stat->parent;
  out.uid = ::stat(process.c_str(), &owner) == 0 ? owner.st_uid : 0;
  out.comm = std::move(stat->comm);
  out.started_boottime_ns = ns_of_ticks(stat->start_ticks);
  out.thread_count = stat->threads;
  out.is_kernel_thread = (stat->flags & kKernelThread) != 0;
  if (out.is_kernel_thread) cut_work_item(out.comm);
  out.leader_exited = leader_exited;
  return Presence::there;
}

void read_threads(ProcessInfo& info, const std::string& root, std::size_t most) {
  const std::string process = fmt::format("{}/proc/{}", root, info.pid);
  if (info.thread_count > 1) read_other_threads(process, info, most);
  if (info.is_kernel_thread) return;
  // A leader that has exited has no memory any more; the other threads go on in it.
  if (!info.leader_exited)
    info.maps_task = process;
  else if (!info.threads.empty())
    info.maps_task = fmt::format("{}/task/{}", process, info.threads.front().tid);
  if (!info.maps_task.empty()) info.executable = executable_of(info.maps_task);
}

bool read_process(std::uint32_t pid, ProcessInfo& info, const std::string& root) {
  if (read_stat(pid, info, root) != Presence::there) return false;
  read_threads(info, root);
  if (info.leader_exited && info.threads.empty()) return false;
  info.cgroup = cgroup_of_process(fmt::format("{}/proc/{}", root, pid));
  return true;
}

void read_mappings(ProcessInfo& info) {
  if (info.maps_task.empty()) return;
  MapsReader maps;
  auto read = maps.read(info.maps_task);
  info.mappings = std::move(read.all);
  info.mappings_cut = read.cut;
}

Result<void> for_each_process_by(MapsSource source, const std::function<void(const ProcessInfo&)>& visit,
                                 const std::string& root) {
  const auto pids = list_processes(root);
  if (!pids) return propagate(pids.error());
  MapsReader maps(source);
  for (const std::uint32_t pid : *pids) {
    ProcessInfo info;
    if (!read_process(pid, info, root)) continue;
    if (!info.maps_task.empty()) {
      auto read = maps.read(info.maps_task);
      info.mappings = std::move(read.all);
      info.mappings_cut = read.cut;
    }
    visit(info);
  }
  return {};
}

Result<void> for_each_process(const std::function<void(const ProcessInfo&)>& visit, const std::string& root) {
  return for_each_process_by(MapsSource::kBest, visit, root);
}

ProcessUsage process_usage(int pid, std::chrono::steady_clock::time_point since) {
  ProcessUsage usage;
  const std::string process = fmt::format("/proc/{}", pid);
  const SmallFile file(process + "/stat");
  const auto stat = parse_stat(file.text());
  if (!stat) return usage;
  usage.cpu_seconds =
      static_cast<double>(stat->user_ticks + stat->system_ticks) / static_cast<double>(ticks_per_second());
  const std::uint64_t now_ns = boottime_now(), started_ns = ns_of_ticks(stat->start_ticks);
  const std::chrono::duration<double> awake = std::chrono::steady_clock::now() - since;
  if (now_ns > started_ns)
    usage.uptime_seconds = std::min(static_cast<double>(now_ns - started_ns) / 1e9, awake.count());
  const SmallFile memory(process + "/statm");  // "SIZE RESIDENT …", in pages
  const std::size_t blank = memory.text().find(' ');
  if (blank == std::string_view::npos) return usage;
  const std::string_view resident = memory.text().substr(blank + 1);
  std::uint64_t pages = 0;
  std::from_chars(resident.data(), resident.data() + resident.size(), pages);
  usage.rss_bytes = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return usage;
}

ProcessUsage own_usage() { return process_usage(::getpid(), kLoaded); }

}  // namespace flight
