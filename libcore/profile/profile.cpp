// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/profile.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "libcore/base/units.hpp"
#include "libcore/profile/profile_reader.hpp"
#include "libcore/profile/read_records.hpp"

namespace flight {

Result<SnapshotProfile> SnapshotProfile::read(const FileReader& file, const ProfileOrder& order) {
  ProfileReader reader(order);
  if (auto taken = reader.take_events(file.events()); !taken) return propagate(taken.error());
  const ReadLimits limits{.most_expanded_bytes = order.most_expanded_bytes, .deadline = order.deadline};
  const auto noted = read_records(file, limits, [&](std::span<const std::byte> record) -> Result<void> {
    reader.note(record);
    return {};
  });
  if (!noted) return propagate(noted.error());
  reader.between();
  const auto again = read_records(file, limits, [&](std::span<const std::byte> record) -> Result<void> {
    reader.count(record);
    return {};
  });
  if (!again) return propagate(again.error());
  return reader.finish();
}

std::string SnapshotProfile::text_of(std::uint32_t frame) const {
  const StackFrame& what = frames[frame];
  if (what.kind == StackFrameKind::others) return "[others]";
  if (what.name != 0) return texts[what.name];
  if (what.kind != StackFrameKind::code) return "";
  if (what.object == 0) return "[unknown]";
  return fmt::format("{}+{:#x}", objects[what.object].short_name(), what.offset);
}

std::string_view SnapshotProfile::object_of(std::uint32_t frame) const {
  const StackFrame& what = frames[frame];
  return what.kind == StackFrameKind::code ? objects[what.object].short_name() : std::string_view();
}

std::vector<std::string> SnapshotProfile::warnings() const {
  std::vector<std::string> out;
  const auto add = [&out](std::uint64_t count, std::string_view one, std::string_view what) {
    if (count > 0) out.push_back(fmt::format("{} {}", counted(count, one), what));
  };
  add(counts.malformed, "sample", "left out: the file claims that they are longer than their records");
  add(counts.unknown_ids, "sample", "left out: they belong to no event of the file");
  add(counts.bad_chains, "stack", "reduced to the innermost frame: the rest cannot be read");
  add(counts.cut_chains, "stack", fmt::format("without outermost frames: only {} are shown", kMostFrames));
  add(counts.others, "sample", "in [others]: there are too many different stacks");
  add(counts.given_up, "address", "shown as [unknown]: the search in too many mappings was ended");
  add(counts.malformed_sideband, "record", "about processes or mappings unused: they cannot be read");
  add(counts.left_out_sideband, "record", "about processes or mappings unused: there are too many");
  if (!counts.knows_kernel) out.emplace_back("kernel functions have no names: its symbols are not there");
  add(counts.unnamed.other, "file", "without names of functions: another build is at its path now");
  add(counts.unnamed.absent, "file", "without names of functions: it is not on this machine, or cannot be read");
  add(counts.unnamed.without_build_id, "file", "without names of functions: the snapshot has no build-id of it");
  add(counts.unnamed.bare, "file", "without names of functions: it has no symbols");
  add(counts.unnamed.too_many, "file", "without names of functions: the symbols of the others use the memory for them");
  return out;
}

}  // namespace flight
