// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <future>
#include <memory>

#include "ctl/connection.hpp"
#include "ctl/daemon_call.hpp"
#include "ctl/doctor/gather.hpp"
#include "ctl/output.hpp"
#include "libcore/base/accounts.hpp"
#include "libcore/base/directory.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/base/unix_socket.hpp"
#include "libcore/control/trigger_messages.hpp"

namespace flight::ctl {
namespace {

constexpr std::chrono::seconds kAnswersWithin(10);

std::string proc(pid_t pid, const std::string& name) {
  const auto text = read_file(fmt::format("/proc/{}/{}", pid, name), kMaxProcBytes);
  return text ? *text : "";
}

std::optional<std::uint64_t> number(std::string_view text, int base = 10) {
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && stop != text.data() ? std::optional(value) : std::nullopt;
}

// The entries of a directory of /proc that are numbers.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> out;
  auto entries = Directory::open(folder);
  if (!entries) return out;
  static_cast<void>(entries->each([&](const Directory::Entry& entry) {
    if (const auto value = number(entry.name)) out.push_back(static_cast<pid_t>(*value));
    return true;
  }));
  return out;
}

std::string user_name(uid_t uid) {
  const auto found = user_numbered(uid);
  return found && *found ? (*found)->name : std::to_string(uid);
}

std::optional<bool> freezes_in_realtime(pid_t pid) {
  for (const pid_t thread : numbers_in(fmt::format("/proc/{}/task", pid))) {
    const auto name = read_line(fmt::format("/proc/{}/task/{}/comm", pid, thread));
    if (!name || *name != "freeze") continue;
    const int policy = ::sched_getscheduler(thread);
    if (policy < 0) return std::nullopt;
    return (policy & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
  }
  return std::nullopt;
}

// The pid of the listener (SO_PEERCRED); -1: it is in another pid namespace, or systemd listens for it.
pid_t listener_of(int socket) {
  const auto listener = peer_credentials(socket);
  return listener && listener->pid > 1 ? listener->pid : -1;
}

// flightd's own child by this name, otherwise the only process of this name; -1: none, or unknown.
pid_t broker_of(pid_t flightd) {
  std::vector<pid_t> found;
  for (const pid_t pid : numbers_in("/proc")) {
    const auto name = read_line(fmt::format("/proc/{}/comm", pid));
    if (!name || *name != "flightd-broker") continue;
    if (status_value(proc(pid, "status"), "PPid") == std::to_string(flightd)) return pid;
    found.push_back(pid);
  }
  return found.size() == 1 ? found[0] : -1;
}

bool is_there(pid_t pid) { return pid > 0 && !proc(pid, "status").empty(); }

Result<void> unanswered() {
  return fail(std::errc::timed_out, "flightd did not answer within {} s", kAnswersWithin.count());
}

// systemd accepts the connection also while flightd hangs or dies at each start, so the wait has a limit. The waiting
// thread ends with the process. After an answer, `client` can be used again.
Answer<std::string> answer_in_time(const std::shared_ptr<ControlClient>& client, const std::string& method,
                                   const std::string& key) {
  const auto answer = std::make_shared<std::promise<Answer<std::string>>>();
  auto answered = answer->get_future();
  auto thread = start_thread("status", [answer, client, method, key] {
    auto reply = client->call({fmt::format("{}.{}", kInterface, method), "{}", false, false, false});
    if (!reply) return answer->set_value(tl::unexpected(Refusal{std::string(kNotConnected), reply.error().what}));
    if (!reply->error.empty()) return answer->set_value(tl::unexpected(Refusal{reply->error, error_message(*reply)}));
    answer->set_value(member(reply->parameters, key));
  });
  if (!thread) return tl::unexpected(Refusal{std::string(kNotConnected), thread.error().what});
  thread->detach();
  if (answered.wait_for(kAnswersWithin) == std::future_status::ready) return answered.get();
  return tl::unexpected(Refusal{std::string(kNotConnected), unanswered().error().what});
}

std::vector<std::string> event_triggers_of(const std::shared_ptr<ControlClient>& client) {
  std::vector<std::string> out;
  const auto text = answer_in_time(client, "ListTriggers", "triggers");
  if (!text) return out;
  const auto rows = parse_listed_triggers(*text);
  if (!rows) return out;
  for (const ListedTrigger& row : *rows)
    if (row.kind == "event" && row.enabled) out.push_back(row.condition);
  return out;
}

}  // namespace

std::vector<std::string> running_oom_killers() {
  std::vector<std::string> out;
  for (const pid_t pid : numbers_in("/proc")) {
    const auto name = read_line(fmt::format("/proc/{}/comm", pid));
    if (!name || std::find(out.begin(), out.end(), *name) != out.end()) continue;
    for (const std::string_view killer : {"earlyoom", "systemd-oomd", "nohang", "oomd"})
      if (*name == killer) out.push_back(*name);
  }
  return out;
}

std::optional<std::uint64_t> soft_limit(const std::string& limits, const std::string& name) {
  for (std::size_t at = 0; at < limits.size();) {
    const std::size_t end = std::min(limits.find('\n', at), limits.size());
    std::string_view line = std::string_view(limits).substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return line.starts_with("unlimited") ? std::optional(kUnlimited) : number(line);
  }
  return std::nullopt;
}

std::string status_value(const std::string& status, const std::string& key) {
  for (std::size_t at = 0; at < status.size();) {
    const std::size_t end = std::min(status.find('\n', at), status.size());
    if (status.compare(at, key.size() + 1, key + ":") == 0) {
      const std::size_t value = status.find_first_not_of(" \t", at + key.size() + 1);
      return value == std::string::npos || value >= end ? "" : status.substr(value, end - value);
    }
    at = end + 1;
  }
  return "";
}

std::string option_value(const std::string& cmdline, const std::string& option) {
  bool next = false;
  for (std::size_t at = 0; at < cmdline.size();) {
    const std::size_t end = std::min(cmdline.find('\0', at), cmdline.size());
    std::string word = cmdline.substr(at, end - at);
    if (next) return word;
    if (word.starts_with(option + "=")) return word.substr(option.size() + 1);
    next = word == option;
    at = end + 1;
  }
  return "";
}

ProcessFacts gather_process(pid_t pid) {
  ProcessFacts out;
  out.pid = pid;
  const std::string status = proc(pid, "status");
  out.uid = static_cast<uid_t>(number(status_value(status, "Uid")).value_or(0));
  out.user = user_name(out.uid);
  out.permitted = number(status_value(status, "CapPrm"), 16).value_or(0);
  out.effective = number(status_value(status, "CapEff"), 16).value_or(0);
  out.locked_kb = number(status_value(status, "VmLck")).value_or(0);
  const std::string limits = proc(pid, "limits");
  out.limit_memlock = soft_limit(limits, "Max locked memory");
  out.limit_rtprio = soft_limit(limits, "Max realtime priority");
  out.limit_nice = soft_limit(limits, "Max nice priority");
  out.limit_nofile = soft_limit(limits, "Max open files");
  errno = 0;
  if (const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(pid)); errno == 0) out.nice = nice;
  out.state_dir = option_value(proc(pid, "cmdline"), "--state-dir");
  out.freeze_is_realtime = freezes_in_realtime(pid);
  return out;
}

DaemonFacts gather_daemon(const Common& common) {
  DaemonFacts out;
  out.socket = common.socket;
  Patience patience{std::chrono::steady_clock::now() + kAnswersWithin, [] { return unanswered(); }};
  auto socket = connect_control(common.socket, patience);
  if (!socket) {
    out.socket_error = socket.error().what;
    out.no_socket = socket.error().errno_value() == ENOENT;
    return out;
  }
  pid_t flightd = listener_of(socket->get());
  pid_t broker = -1;
  const auto client = std::make_shared<ControlClient>(ControlClient::on(std::move(*socket)));
  const auto text = answer_in_time(client, "GetStatus", "status");
  if (!text) {
    const bool refused = text.error().name == "org.varlink.service.PermissionDenied";
    (refused ? out.status_refused : out.status_error) = text.error().message;
  } else if (auto status = parse_status(*text)) {
    out.status = std::move(*status);
    flightd = out.status->flightd.pid;
    broker = out.status->broker.pid;
    out.event_triggers = event_triggers_of(client);
  }
  if (!is_there(broker)) broker = broker_of(flightd);
  if (is_there(flightd)) out.flightd = gather_process(flightd);
  if (is_there(broker)) out.broker = gather_process(broker);
  return out;
}

}  // namespace flight::ctl
