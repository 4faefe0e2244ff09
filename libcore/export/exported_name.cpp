// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/exported_name.hpp"

#include <cstddef>

#include "libcore/base/text.hpp"

namespace flight {

std::string exported_name(std::string_view name) {
  if (name.size() <= kMostExportedBytes) return printable(name);
  std::size_t end = kMostExportedBytes;
  // Not within a character: of one, at most three bytes continue it.
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(name[at]) & 0xc0U) == 0x80U; };
  for (int back = 0; back < 3 && continues(end); ++back) --end;
  return printable(name.substr(0, end)) + "...";
}

}  // namespace flight
