// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/kernel_maps.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string>

#include "libcore/base/files.hpp"
#include "libcore/sysinfo/proc_text.hpp"

namespace flight {
namespace {

struct KernelSymbols {
  std::uint64_t text = 0, stext = 0, etext = 0, edata = 0;
  bool any = false;
};

// Lines are "ffffffff81000000 T _text"; those of modules have "\t[module]" after the name.
bool has_symbols(std::string_view kallsyms) {
  while (!kallsyms.empty()) {
    const std::string_view line = take_line(kallsyms);
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos && line.size() >= space + 4) return true;
  }
  return false;
}

// The address of a symbol of the kernel itself, of several the last one; 0 if there is none. The name is searched for
// in the whole text: to take each of 100,000 lines apart takes ten times as long.
std::uint64_t address_of(std::string_view kallsyms, std::string_view name) {
  const std::string needle = fmt::format(" {}\n", name);
  std::uint64_t address = 0;
  for (std::string_view rest = kallsyms; !rest.empty();) {
    const void* found = ::memmem(rest.data(), rest.size(), needle.data(), needle.size());
    if (found == nullptr) break;
    const auto at = static_cast<std::size_t>(static_cast<const char*>(found) - kallsyms.data());
    const std::size_t before = kallsyms.rfind('\n', at);
    const std::string_view line = kallsyms.substr(before == std::string_view::npos ? 0 : before + 1);
    // "ADDRESS T" is what must be before the name.
    const std::size_t space = line.find(' ');
    if (line.data() + space + 2 == found) address = leading_number(line.substr(0, space), 16);
    rest = kallsyms.substr(at + needle.size() - 1);
  }
  return address;
}

KernelSymbols find_symbols(std::string_view kallsyms) {
  return {.text = address_of(kallsyms, "_text"),
          .stext = address_of(kallsyms, "_stext"),
          .etext = address_of(kallsyms, "_etext"),
          .edata = address_of(kallsyms, "_edata"),
          .any = has_symbols(kallsyms)};
}

}  // namespace

Result<KernelImage> kernel_image(std::string_view kallsyms, const std::string& root) {
  const KernelSymbols symbols = find_symbols(kallsyms);
  if (!symbols.any)
    return fail(std::errc::no_message,
                "/proc/kallsyms is empty: kernel addresses get no names (the kernel needs CONFIG_KALLSYMS)");
  const bool has_text = symbols.text != 0;
  const std::uint64_t start = has_text ? symbols.text : symbols.stext;
  if (start == 0)
    return fail(std::errc::permission_denied,
                "/proc/kallsyms shows no address of _text or _stext: kernel addresses get no names (this needs "
                "CAP_SYSLOG, and kernel.kptr_restrict below 2)");
  const std::uint64_t end = symbols.etext > start ? symbols.etext : symbols.edata;
  if (end <= start)
    return fail(std::errc::bad_message, "/proc/kallsyms has neither _etext nor _edata after the kernel's start {:#x}",
                start);
  return KernelImage{.name = has_text ? "[kernel.kallsyms]_text" : "[kernel.kallsyms]_stext",
                     .address = start,
                     .bytes = end - start,
                     .build_id = build_id_of_file(root + "/sys/kernel/notes")};
}

}  // namespace flight
