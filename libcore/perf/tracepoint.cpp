// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/tracepoint.hpp"

#include <dirent.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "libcore/base/directory.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/kernel_file.hpp"
#include "libcore/perf/event_names.hpp"
#include "libcore/perf/event_spec.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTracefs = "/sys/kernel/tracing";
constexpr const char* kHowToMount = "mount it with: mount -t tracefs tracefs /sys/kernel/tracing";
constexpr std::size_t kMaxTracepoints = 1U << 16U;  // some thousands are usual
constexpr std::size_t kMaxFormatBytes = 1U << 20U;

// /proc/self/mounts encodes blanks, tabs, newlines and backslashes as \ooo.
std::string unescape(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size() && std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3) {
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// `checked`: a folder above it, or itself, for which nothing waits (kernel_file.hpp).
std::vector<std::string> folders_in(const std::string& path, const std::string& checked) {
  std::vector<std::string> names;
  if (!waits_below(checked, path).empty()) return names;
  auto entries = Directory::open(path);
  if (!entries) return names;
  static_cast<void>(entries->each([&](const Directory::Entry& entry) {
    if (entry.type == DT_DIR || entry.type == DT_UNKNOWN) names.emplace_back(entry.name);
    return names.size() < kMaxTracepoints;
  }));
  return names;
}

Failure explain_missing(const Error& error, const std::string& tracefs, const std::string& system,
                        const std::string& event) {
  if (error.errno_value() == EACCES || error.errno_value() == EPERM)
    return wrap(error, "tracepoint {}:{} cannot be looked up without CAP_DAC_READ_SEARCH (or root)", system, event);
  if (error.errno_value() != ENOENT && error.errno_value() != ENOTDIR)
    return wrap(error, "tracepoint {}:{}", system, event);
  const std::string name = system + ":" + event;
  const auto all = list_tracepoints(tracefs);
  if (all.empty())
    return fail(std::errc::no_such_file_or_directory, "there is no tracepoint '{}': {}/events has no readable one",
                name, tracefs);
  return fail(std::errc::no_such_file_or_directory, "there is no tracepoint '{}'{}", name,
              did_you_mean(nearest_names(name, all)));
}

Result<std::string> read_event_file(const std::string& tracefs, const std::string& system, const std::string& event,
                                    const char* file) {
  if (tracefs.empty()) {
    const auto found = find_tracefs();
    if (!found && found.error().errno_value() == EREMOTE) return wrap(found.error(), "tracepoint {}:{}", system, event);
    return fail(std::errc::no_such_file_or_directory, "tracepoint {}:{}: tracefs is not mounted; {}", system, event,
                kHowToMount);
  }
  if (!is_plain_name(system) || !is_plain_name(event))
    return fail(std::errc::invalid_argument,
                "'{}:{}' is not a tracepoint name: use SYSTEM:EVENT, such as sched:sched_switch", system, event);
  auto text = read_kernel_file(fmt::format("{}/events/{}/{}/{}", tracefs, system, event, file), kMaxFormatBytes);
  if (!text) return explain_missing(text.error(), tracefs, system, event);
  return text;
}

}  // namespace

Result<std::string> find_tracefs() {
  const auto mounts = read_file("/proc/self/mounts");
  if (!mounts) return wrap(mounts.error(), "find tracefs");
  std::istringstream lines(*mounts);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string device;
    std::string folder;
    std::string kind;
    fields >> device >> folder >> kind;
    if (kind != "tracefs") continue;
    folder = unescape(folder);
    if (found.empty() || folder == kTracefs) found = folder;
  }
  if (found.empty()) return fail(std::errc::no_such_file_or_directory, "tracefs is not mounted; {}", kHowToMount);
  if (const auto checked = check_kernel_path(found); !checked) return wrap(checked.error(), "find tracefs");
  return found;
}

Result<std::string> find_or_mount_tracefs() {
  auto found = find_tracefs();
  if (found || found.error().errno_value() != ENOENT) return found;
  if (const auto checked = check_kernel_path(kTracefs); !checked) return wrap(checked.error(), "mount tracefs");
  if (::mount("tracefs", kTracefs, "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0)
    return std::string(kTracefs);
  const int error_number = errno;
  if (error_number == EBUSY) return find_tracefs();  // another process mounted it
  auto refused = sys_error(error_number, "tracefs is not mounted, and mounting it on {}", kTracefs);
  if (error_number == EPERM || error_number == EACCES)
    refused.value().what += ": this process lacks CAP_SYS_ADMIN; as root, " + std::string(kHowToMount);
  if (error_number == ENODEV || error_number == ENOENT)
    refused.value().what += ": this kernel was built without CONFIG_TRACING, so there are no tracepoints";
  return refused;
}

Result<std::uint64_t> tracepoint_id(const std::string& tracefs, const std::string& system, const std::string& event) {
  const auto text = read_event_file(tracefs, system, event, "id");
  if (!text) return propagate(text.error());
  std::uint64_t id = 0;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), id);
  if (error != std::errc{} || stop == text->data())
    return fail(std::errc::bad_message, "{}/events/{}/{}/id does not contain a number", tracefs, system, event);
  return id;
}

Result<std::string> tracepoint_format(const std::string& tracefs, const std::string& system, const std::string& event) {
  return read_event_file(tracefs, system, event, "format");
}

std::vector<std::string> list_tracepoints(const std::string& tracefs) {
  std::vector<std::string> names;
  const std::string root = tracefs + "/events";
  if (!check_kernel_path(root)) return names;
  for (const std::string& system : folders_in(root, root)) {
    const std::string folder = root + "/" + system;
    for (const std::string& event : folders_in(folder, root)) {
      std::error_code unknown;
      const std::string id = folder + "/" + event + "/id";
      if (names.size() < kMaxTracepoints && waits_below(folder, id).empty() && fs::exists(id, unknown))
        names.push_back(fmt::format("{}:{}", system, event));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace flight
