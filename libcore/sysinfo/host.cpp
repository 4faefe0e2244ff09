// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/host.hpp"

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <charconv>
#include <string_view>

#include "libcore/base/kernel_file.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxCpuinfoBytes = 16U << 20U;

// The value of the first "key<blanks>: value" line.
std::string_view value_of(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find_first_not_of(" \t", key.size());
    if (colon == std::string_view::npos || line[colon] != ':') continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string_view::npos ? std::string_view{} : line.substr(value);
  }
  return {};
}

std::string cpu_id_of(std::string_view cpuinfo, const std::string& root) {
  const std::string_view vendor = value_of(cpuinfo, "vendor_id");
  if (!vendor.empty()) {  // x86: decimal CPUID values, the keys of perf's vendor tables
    return fmt::format("{},{},{},{}", vendor, value_of(cpuinfo, "cpu family"), value_of(cpuinfo, "model"),
                       value_of(cpuinfo, "stepping"));
  }
  auto midr = read_kernel_file(root + "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1").value_or("");
  if (!midr.empty() && midr.back() == '\n') midr.pop_back();
  return midr;
}

std::string cpu_description_of(std::string_view cpuinfo) {
  for (const char* key : {"model name", "Processor", "Hardware"})
    if (const std::string_view value = value_of(cpuinfo, key); !value.empty()) return std::string(value);
  const std::string_view implementer = value_of(cpuinfo, "CPU implementer");  // arm64 has only numbers
  if (implementer.empty()) return {};
  return fmt::format("ARM implementer {} part {}", implementer, value_of(cpuinfo, "CPU part"));
}

}  // namespace

std::string current_hostname() {
  utsname names{};
  ::uname(&names);
  return names.nodename;
}

std::uint64_t total_memory_kb(const std::string& root) {
  const std::string meminfo = read_kernel_file(root + "/proc/meminfo").value_or("");
  const std::string_view total = value_of(meminfo, "MemTotal");
  std::uint64_t out = 0;
  std::from_chars(total.data(), total.data() + total.size(), out);
  // /proc/meminfo could not be read: there is no /proc or no free descriptor, or a container's server shows its own.
  struct sysinfo info {};
  if (out == 0 && root.empty() && ::sysinfo(&info) == 0) out = std::uint64_t{info.totalram} * info.mem_unit / 1024;
  return out;
}

HostInfo HostInfo::read(const std::string& root) {
  HostInfo info;
  utsname names{};
  ::uname(&names);
  info.hostname = read_kernel_line(root + "/proc/sys/kernel/hostname").value_or(names.nodename);
  info.os_release = read_kernel_line(root + "/proc/sys/kernel/osrelease").value_or(names.release);
  info.arch = names.machine;
  info.boot_id = read_kernel_line(root + "/proc/sys/kernel/random/boot_id").value_or("");
  const std::string cpuinfo = read_kernel_file(root + "/proc/cpuinfo", kMaxCpuinfoBytes).value_or("");
  info.cpu_description = cpu_description_of(cpuinfo);
  info.cpu_id = cpu_id_of(cpuinfo, root);
  info.total_memory_kb = flight::total_memory_kb(root);
  return info;
}

}  // namespace flight
