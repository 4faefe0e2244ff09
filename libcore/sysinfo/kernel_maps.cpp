// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/kernel_maps.hpp"

#include "libcore/base/files.hpp"
#include "libcore/sysinfo/proc_text.hpp"

namespace flight {
namespace {

struct KernelSymbols {
  std::uint64_t text = 0, stext = 0, etext = 0, edata = 0;
  bool any = false;
};

// Lines are "ffffffff81000000 T _text"; those of modules have "\t[module]" after the name.
KernelSymbols find_symbols(std::string_view kallsyms) {
  KernelSymbols found;
  while (!kallsyms.empty()) {
    const std::string_view line = take_line(kallsyms);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.size() < space + 4) continue;
    found.any = true;
    if (line[space + 3] != '_') continue;  // all four begin with it; most lines end here
    const std::string_view name = line.substr(space + 3);
    const auto value = [&] { return leading_number(line.substr(0, space), 16); };
    if (name == "_text") found.text = value();
    if (name == "_stext") found.stext = value();
    if (name == "_etext") found.etext = value();
    if (name == "_edata") found.edata = value();
  }
  return found;
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
