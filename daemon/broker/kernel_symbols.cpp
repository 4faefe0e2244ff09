// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/kernel_symbols.hpp"

#include <utility>

#include "libcore/base/files.hpp"
#include "libcore/sysinfo/kernel_maps.hpp"

namespace flight {

std::string read_kallsyms(Manifest& manifest) {
  auto text = read_file("/proc/kallsyms", kMaxKallsymsBytes);
  if (!text) {
    manifest.warnings.push_back("kernel symbols: " + text.error().what);
    return {};
  }
  auto maps = read_kernel_maps(*text);
  if (!maps) {
    manifest.warnings.push_back("kernel symbols: " + maps.error().what);
    return {};
  }
  for (KernelMap& map : *maps)
    manifest.kernel_maps.push_back({.name = std::move(map.name),
                                    .address = map.address,
                                    .bytes = map.bytes,
                                    .page_offset = map.page_offset,
                                    .build_id = std::move(map.build_id)});
  return std::move(*text);
}

}  // namespace flight
