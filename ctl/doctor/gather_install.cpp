// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include <fmt/ranges.h>

#include "ctl/child.hpp"
#include "ctl/daemon_call.hpp"
#include "ctl/doctor/gather.hpp"
#include "ctl/host.hpp"
#include "libcore/base/accounts.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/units.hpp"
#include "libcore/control/config_report.hpp"

namespace flight::ctl {
namespace {

constexpr std::chrono::seconds kToAnswer(5), kDiskToAnswer(3);
// In systemd's search order: the first file wins (systemd.unit(5)).
constexpr std::array<const char*, 5> kUnitFolders{"/etc/systemd/system", "/run/systemd/system",
                                                  "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
                                                  "/lib/systemd/system"};
constexpr const char* kStateFolder = "/var/lib/flightd";

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// A link to /dev/null masks the files of the other directories.
bool masked(const std::string& path) {
  std::array<char, 16> target{};
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  return size > 0 && std::string_view(target.data(), static_cast<std::size_t>(size)) == "/dev/null";
}

// Empty: there is none.
std::string unit_path(const std::string& name) {
  for (const char* folder : kUnitFolders) {
    std::string path = fmt::format("{}/{}", folder, name);
    if (masked(path)) return "";
    if (exists(path)) return path;
  }
  return "";
}

// The first line of a program's stdout; nullopt if there is no such program, or it does not answer.
std::optional<std::string> first_line(const std::vector<std::string>& words) {
  auto child = Child::start(words);
  if (!child) return std::nullopt;
  if (!child->wait(kToAnswer)) {
    child->kill();
    static_cast<void>(child->wait(kToAnswer));
    return std::nullopt;
  }
  const std::string text = child->out();
  return text.substr(0, text.find('\n'));
}

UnitFacts gather_unit(const std::string& name, bool systemd) {
  UnitFacts out;
  out.file = unit_path(name);
  if (out.file.empty() || !systemd) return out;
  out.enabled = first_line({"systemctl", "is-enabled", name});
  out.active = first_line({"systemctl", "is-active", name});
  return out;
}

// Only root can become the configured user to look.
ConfigFacts gather_config(const UnitFacts& flightd, bool root) {
  ConfigFacts out;
  if (flightd.file.empty() || !flightd.active || !root) return out;
  const auto words =
      check_command(first_line({"systemctl", "show", "--value", "-p", "ExecStart", "flightd.service"}).value_or(""));
  if (words.empty()) return out;
  out.command = fmt::format("{}", fmt::join(words, " "));
  auto child = Child::start(words);
  const auto status = child ? child->wait(kToAnswer) : std::nullopt;
  out.good = status == 0;
  if (out.good) return out;
  if (!child) {
    out.error = child.error().what;
  } else if (!status) {
    child->kill();
    static_cast<void>(child->wait(kToAnswer));
    out.error = fmt::format("no answer within {} s", kToAnswer.count());
  } else {
    out.error = error_in(child->err());
  }
  return out;
}

bool user_exists(const std::string& name, std::string& why_not_looked_up) {
  const auto found = user_named(name, kToAnswer);
  if (!found) why_not_looked_up = found.error().what;
  return found && found->has_value();
}

GroupFacts gather_group(const std::string& name, std::string& why_not_looked_up) {
  GroupFacts out;
  const auto found = group_with_user(name, ::getuid(), kToAnswer);
  if (!found) why_not_looked_up = found.error().what;
  if (!found || !*found) return out;
  out.there = true;
  const gid_t gid = (*found)->gid;
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  groups.resize(static_cast<std::size_t>(std::max(::getgroups(static_cast<int>(groups.size()), groups.data()), 0)));
  out.member = ::getegid() == gid || std::find(groups.begin(), groups.end(), gid) != groups.end();
  out.listed = (*found)->lists_user;
  return out;
}

std::string perf_program() {
  const char* other = std::getenv("PERF");
  return other != nullptr && *other != '\0' ? other : "perf";
}

// Parses "15%" (of the disk) or "2G".
std::optional<std::uint64_t> size_of(const std::string& text, std::uint64_t total_bytes) {
  if (const auto percent = parse_percent(text))
    return static_cast<std::uint64_t>(*percent / 100 * static_cast<double>(total_bytes));
  const auto bytes = parse_bytes(text);
  return bytes ? std::optional(*bytes) : std::nullopt;
}

// JSON has "15%" in quotes.
std::string without_quotes(const std::string& text) {
  return text.size() >= 2 && text.front() == '"' && text.back() == '"' ? text.substr(1, text.size() - 2) : text;
}

std::optional<std::string> keep_free(const Common& common) {
  const auto text = ask_whole(common, "GetConfig", "{}");
  const auto report = text ? parse_config_report(*text) : fail(std::errc::no_message, "none");
  if (!report) return std::nullopt;
  for (const ReportedValue& value : report->values)
    if (value.path == "store.keep_free") return without_quotes(value.value);
  return std::nullopt;
}

// The directory on flightd's command line; otherwise the one of the packages, which may not exist.
std::string store_folder(const DaemonFacts& daemon) {
  if (daemon.flightd && daemon.flightd->state_dir.starts_with('/')) return daemon.flightd->state_dir;
  return kStateFolder;
}

// statvfs(3) by another process: one that waits for a disk cannot be ended.
void look_at_disk(StoreFacts& store) {
  auto child = Child::start({"stat", "-f", "-c", "%S %b %a", "--", store.folder});
  const auto status = child ? child->wait(kDiskToAnswer) : std::optional(1);
  store.silent = !status;
  std::uint64_t block_bytes = 0, total = 0, free = 0;
  if (status == 0 && std::istringstream(child->out()) >> block_bytes >> total >> free) {
    store.total_bytes = total * block_bytes;
    store.free_bytes = free * block_bytes;
  } else if (status) {
    store.folder.clear();
  }
}

}  // namespace

std::string error_in(std::string_view log) {
  constexpr std::string_view kLevel = "flightd error: ";
  const std::size_t begin = log.rfind(kLevel);
  if (begin == std::string_view::npos) return last_words(log);
  log.remove_prefix(begin + kLevel.size());
  return std::string(log.substr(0, log.find('\n')));
}

// "{ path=/usr/sbin/flightd ; argv[]=/usr/sbin/flightd --broker … --config /etc/my.json ; ignore_errors=no ; … }"
std::vector<std::string> check_command(const std::string& exec_start) {
  constexpr std::string_view kBegin = " argv[]=";
  const std::size_t begin = exec_start.find(kBegin);
  if (begin == std::string::npos) return {};
  std::vector<std::string> given;
  std::istringstream text(exec_start.substr(begin + kBegin.size()));
  for (std::string word; text >> word && word != ";";) given.push_back(word);
  if (given.empty() || !(given[0] == "flightd" || given[0].ends_with("/flightd"))) return {};
  std::vector<std::string> words{given[0], "--check-config", "--for-service"};
  for (std::size_t at = 1; at < given.size(); ++at)
    for (const std::string_view option : {"--config", "--state-dir", "--runtime-dir"}) {
      if (given[at].starts_with(fmt::format("{}=", option))) words.push_back(given[at]);
      if (given[at] == option && at + 1 < given.size()) words.insert(words.end(), {given[at], given[at + 1]});
    }
  return words;
}

InstallFacts gather_install() {
  InstallFacts out;
  out.root = ::geteuid() == 0;
  out.user_flightd = user_exists("flightd", out.no_accounts);
  out.user_broker = user_exists("flightd-broker", out.no_accounts);
  out.group = gather_group("flightd", out.no_accounts);
  out.trigger_group = gather_group("flightd-trigger", out.no_accounts);
  out.systemd = exists("/run/systemd/system");  // sd_booted(3)
  out.journald = exists("/run/systemd/journal/socket");
  out.flightd = gather_unit("flightd.service", out.systemd);
  out.broker = gather_unit("flightd-broker.service", out.systemd);
  out.config = gather_config(out.flightd, out.root);
  out.sys_admin_drop_in = !unit_path("flightd-broker.service.d/10-cap-sys-admin.conf").empty();
  out.perf_version = first_line({perf_program(), "--version"});
  return out;
}

StoreFacts gather_store(const Common& common, const DaemonFacts& daemon) {
  StoreFacts out;
  out.folder = store_folder(daemon);
  look_at_disk(out);
  if (!daemon.status || out.folder.empty() || out.silent) return out;
  out.used_bytes = daemon.status->store_bytes;
  out.max_bytes = daemon.status->store_max_bytes;
  if (const auto text = keep_free(common)) out.keep_free_bytes = size_of(*text, out.total_bytes);
  return out;
}

}  // namespace flight::ctl
