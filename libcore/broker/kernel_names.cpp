// SPDX-License-Identifier: Apache-2.0
#include "libcore/broker/kernel_names.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "libcore/broker/build_ids.hpp"
#include "libcore/broker/packed.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxNameBytes = 4095;  // PATH_MAX, as in perf
constexpr std::size_t kMaxWarningBytes = 4096;

struct KernelNamesHeader {
  std::uint64_t maps = 0, since_ns = 0, looked_ns = 0, forgotten = 0;
  std::array<char, kModulesDigestBytes> digest{};
  std::uint32_t kallsyms = 0, warning_bytes = 0;
  std::array<std::uint64_t, 2> reserved{};
};
static_assert(sizeof(KernelNamesHeader) == 72);

struct KernelMapEntry {
  std::uint64_t address = 0, bytes = 0, page_offset = 0, begin_ns = 0, end_ns = 0;
  std::uint32_t name_bytes = 0, build_id_bytes = 0;
  std::array<std::uint8_t, kMaxStoredBuildIdBytes> build_id{};
  std::uint32_t reserved = 0;
};
static_assert(sizeof(KernelMapEntry) == 72);

bool is_digest(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Why `map`, at `index`, is invalid; nullptr: it is valid.
const char* fault_of(const KernelMap& map, std::size_t index, const KernelNames& names) {
  if (map.name.empty() || (map.name[0] != '[' && map.name[0] != '/') || map.name.find('\0') != std::string::npos)
    return "has an invalid name";
  if (map.is_kernel() && index != 0) return "is a second kernel";
  if (map.bytes == 0 || map.address + (map.bytes - 1) < map.address) return "has a range that wraps or is empty";
  if (map.end_ns != 0 && map.end_ns < map.begin_ns) return "ended before it began";
  if (std::max(map.begin_ns, map.end_ns) > names.looked_ns) return "has a time after the read";
  return nullptr;
}

}  // namespace

std::vector<std::byte> encode(const KernelNames& names) {
  PackedWriter out;
  KernelNamesHeader header{.maps = names.maps.size(),
                           .since_ns = names.since_ns,
                           .looked_ns = names.looked_ns,
                           .forgotten = names.forgotten,
                           .kallsyms = static_cast<std::uint32_t>(names.kallsyms)};
  std::copy_n(names.digest.begin(), std::min(names.digest.size(), header.digest.size()), header.digest.begin());
  const std::string_view warning = std::string_view(names.warning).substr(0, kMaxWarningBytes);
  header.warning_bytes = static_cast<std::uint32_t>(warning.size());
  out.add(header);
  out.add_text(warning);
  for (const KernelMap& map : names.maps) {
    KernelMapEntry entry{.address = map.address,
                         .bytes = map.bytes,
                         .page_offset = map.page_offset,
                         .begin_ns = map.begin_ns,
                         .end_ns = map.end_ns};
    const std::string_view name = std::string_view(map.name).substr(0, kMaxNameBytes);
    entry.name_bytes = static_cast<std::uint32_t>(name.size());
    entry.build_id_bytes = static_cast<std::uint32_t>(std::min(map.build_id.size(), entry.build_id.size()));
    std::copy_n(map.build_id.begin(), entry.build_id_bytes, entry.build_id.begin());
    out.add(entry);
    out.add_text(name);
  }
  return std::move(out).take();
}

Result<KernelNames> parse_kernel_names(std::span<const std::byte> bytes) {
  const auto broken = [] { return fail(std::errc::bad_message, "the kernel's maps are cut off or malformed"); };
  PackedReader in(bytes);
  KernelNamesHeader header;
  if (!in.take(header) || header.maps > kMaxKernelMaps) return broken();
  KernelNames out{.maps = {},
                  .since_ns = header.since_ns,
                  .looked_ns = header.looked_ns,
                  .forgotten = header.forgotten,
                  .digest = {header.digest.begin(), header.digest.end()},
                  .kallsyms = static_cast<Kallsyms>(header.kallsyms)};
  const auto warning = in.take_text(header.warning_bytes);
  if (!warning || warning->size() > kMaxWarningBytes) return broken();
  out.warning = *warning;
  if (header.kallsyms > static_cast<std::uint32_t>(Kallsyms::sent) || header.since_ns > header.looked_ns ||
      !is_digest(out.digest))
    return broken();
  if (header.maps > in.left() / sizeof(KernelMapEntry)) return broken();
  out.maps.reserve(header.maps);
  for (std::uint64_t i = 0; i < header.maps; ++i) {
    KernelMapEntry entry;
    if (!in.take(entry) || entry.build_id_bytes > entry.build_id.size()) return broken();
    KernelMap map{.name = {},
                  .address = entry.address,
                  .bytes = entry.bytes,
                  .page_offset = entry.page_offset,
                  .build_id = {entry.build_id.begin(), entry.build_id.begin() + entry.build_id_bytes},
                  .begin_ns = entry.begin_ns,
                  .end_ns = entry.end_ns};
    const auto name = in.take_text(entry.name_bytes);
    if (!name || name->size() > kMaxNameBytes) return broken();
    map.name = *name;
    if (const char* fault = fault_of(map, i, out))
      return fail(std::errc::bad_message, "kernel map {}: it {}", i, fault);
    out.maps.push_back(std::move(map));
  }
  if (in.left() != 0) return broken();
  return out;
}

}  // namespace flight
