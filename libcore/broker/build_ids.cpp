// SPDX-License-Identifier: Apache-2.0
#include "libcore/broker/build_ids.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "libcore/broker/packed.hpp"

namespace flight {
namespace {

struct BuildIdsHeader {
  std::uint64_t entries = 0;
  std::uint64_t missed_bytes = 0;
  std::uint32_t unanswered = 0, served = 0;
  std::uint64_t hung_processes = 0;
};
static_assert(sizeof(BuildIdsHeader) == 32);
static_assert(sizeof(DeviceNumber) == 8);

struct BuildIdEntry {
  std::uint32_t major = 0, minor = 0;
  std::uint64_t inode = 0, generation = 0;
  std::uint16_t recorded_bytes = 0, host_bytes = 0;  // of the two names that follow
  std::uint16_t build_id_bytes = 0, is_two = 0;
  std::array<std::uint8_t, kMaxStoredBuildIdBytes> build_id{};
  std::uint32_t reserved = 0;
  std::uint64_t from_ns = 0, to_ns = 0;
};
static_assert(sizeof(BuildIdEntry) == 72);

constexpr std::size_t kMaxPathBytes = 4096;

// left_out_ns and forgotten_ns.
constexpr std::size_t kMoreEntries = 2;

// Adds an entry of inode 0, which has no names.
void add_bare(PackedWriter& out, const BuildIdEntry& entry) {
  out.add(entry);
  out.add_text("");
}

// An entry of inode 0.
void read_bare(const BuildIdEntry& entry, KnownFiles& out) {
  if (entry.to_ns != 0)
    out.forgotten_ns = entry.to_ns;
  else if (entry.generation != 0)
    out.waiting.push_back({.file = {.major = entry.major, .minor = entry.minor, .inode = entry.generation},
                           .from_ns = entry.from_ns,
                           .is_next = entry.is_two != 0});
  else
    out.left_out_ns = entry.from_ns;
}

}  // namespace

std::vector<std::byte> encode(const KnownFiles& known) {
  PackedWriter out(sizeof(BuildIdsHeader) + known.files.size() * sizeof(BuildIdEntry));
  const std::size_t unanswered = std::min(known.unanswered.size(), kMaxUnansweredDevices);
  const std::size_t served = std::min(known.served.size(), kMaxServedDisks);
  const BuildIdsHeader header{.entries = known.files.size() + known.waiting.size() + (known.left_out_ns != 0 ? 1 : 0) +
                                         (known.forgotten_ns != 0 ? 1 : 0),
                              .missed_bytes = known.missed_bytes,
                              .unanswered = static_cast<std::uint32_t>(unanswered),
                              .served = static_cast<std::uint32_t>(served),
                              .hung_processes = known.hung_processes};
  out.add(header);
  for (std::size_t i = 0; i < unanswered; ++i) out.add(known.unanswered[i]);
  for (std::size_t i = 0; i < served; ++i) {
    const std::string type = known.served[i].type.substr(0, kMaxFileSystemBytes);
    out.add(known.served[i].disk);
    out.add(std::uint64_t{type.size()});
    out.add_text(type);
  }
  for (const KnownFile& file : known.files) {
    BuildIdEntry entry{.major = file.file.major,
                       .minor = file.file.minor,
                       .inode = file.file.inode,
                       .generation = file.file.generation};
    entry.build_id_bytes = static_cast<std::uint16_t>(std::min(file.build_id.size(), entry.build_id.size()));
    std::copy_n(file.build_id.begin(), entry.build_id_bytes, entry.build_id.begin());
    const bool renamed = file.recorded_name.size() <= kMaxPathBytes && file.host_path.size() <= kMaxPathBytes;
    const std::string_view recorded = renamed ? file.recorded_name : std::string_view();
    const std::string_view host = renamed ? file.host_path : std::string_view();
    entry.recorded_bytes = static_cast<std::uint16_t>(recorded.size());
    entry.host_bytes = static_cast<std::uint16_t>(host.size());
    entry.from_ns = file.from_ns;
    entry.to_ns = file.to_ns;
    entry.is_two = file.is_two ? 1 : 0;
    out.add(entry);
    out.add_text(std::string(recorded).append(host));
  }
  for (const WaitingFile& one : known.waiting)
    add_bare(out, {.major = one.file.major,
                   .minor = one.file.minor,
                   .generation = one.file.inode,
                   .is_two = static_cast<std::uint16_t>(one.is_next ? 1 : 0),
                   .from_ns = one.from_ns});
  if (known.left_out_ns != 0) add_bare(out, {.from_ns = known.left_out_ns});
  if (known.forgotten_ns != 0) add_bare(out, {.to_ns = known.forgotten_ns});
  return std::move(out).take();
}

Result<KnownFiles> parse_build_ids(std::span<const std::byte> bytes) {
  const auto broken = [] { return fail(std::errc::bad_message, "the broker's build-ids are cut off or malformed"); };
  PackedReader in(bytes);
  BuildIdsHeader header;
  if (!in.take(header) || header.entries > kMaxKnownReadings + kMoreEntries ||
      header.unanswered > kMaxUnansweredDevices || header.served > kMaxServedDisks)
    return broken();
  KnownFiles out{.files = {},
                 .missed_bytes = header.missed_bytes,
                 .hung_processes = header.hung_processes,
                 .unanswered = {},
                 .served = {}};
  for (std::uint64_t i = 0; i < header.unanswered; ++i)
    if (!in.take(out.unanswered.emplace_back())) return broken();
  for (std::uint64_t i = 0; i < header.served; ++i) {
    ServedDisk& disk = out.served.emplace_back();
    std::uint64_t type_bytes = 0;
    if (!in.take(disk.disk) || !in.take(type_bytes) || type_bytes > kMaxFileSystemBytes) return broken();
    const auto type = in.take_text(type_bytes);
    if (!type) return broken();
    disk.type = *type;
  }
  out.files.reserve(header.entries);
  for (std::uint64_t i = 0; i < header.entries; ++i) {
    BuildIdEntry entry;
    if (!in.take(entry) || entry.build_id_bytes > entry.build_id.size() || entry.recorded_bytes > kMaxPathBytes ||
        entry.host_bytes > kMaxPathBytes)
      return broken();
    const auto names = in.take_text(std::size_t{entry.recorded_bytes} + entry.host_bytes);
    if (!names) return broken();
    if (entry.inode == 0) {
      read_bare(entry, out);
      continue;
    }
    out.files.push_back(
        {.file = {.major = entry.major, .minor = entry.minor, .inode = entry.inode, .generation = entry.generation},
         .build_id = {entry.build_id.begin(), entry.build_id.begin() + entry.build_id_bytes},
         .recorded_name = std::string(names->substr(0, entry.recorded_bytes)),
         .host_path = std::string(names->substr(entry.recorded_bytes)),
         .from_ns = entry.from_ns,
         .to_ns = entry.to_ns,
         .is_two = entry.is_two != 0});
  }
  if (in.left() != 0) return broken();
  return out;
}

}  // namespace flight
