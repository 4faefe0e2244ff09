// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/page.hpp"

#include <cassert>
#include <cstddef>

#include "libcore/export/base64.hpp"

namespace flight {
namespace {

std::span<const std::byte> page_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Result<void> write_page(std::span<const PageSide> sides, const WritePage& write) {
  const std::string_view page = page_html();
  const std::size_t at = page.find(kPagePayload);
  assert(at != std::string_view::npos);
  if (auto written = write(page_bytes(page.substr(0, at))); !written) return written;
  Base64Writer text(write);
  auto payload = write_page_payload(sides, [&text](std::span<const std::byte> bytes) { return text.add(bytes); });
  if (!payload) return payload;
  if (auto finished = text.finish(); !finished) return finished;
  return write(page_bytes(page.substr(at + kPagePayload.size())));
}

}  // namespace flight
