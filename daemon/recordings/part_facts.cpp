// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/part_facts.hpp"

#include <algorithm>
#include <utility>

#include "libcore/base/units.hpp"
#include "libcore/base/version.hpp"
#include "libcore/snapshot/clock_steps.hpp"
#include "libcore/snapshot/needed_forks.hpp"
#include "libcore/snapshot/recorded_cpus.hpp"
#include "libcore/snapshot/relabel.hpp"
#include "libcore/snapshot/symbol_ends.hpp"
#include "libcore/store/names.hpp"

namespace flight::daemon {
namespace {

constexpr std::size_t kMaxBuildIds = 65536;  // of one part, as far as the section lists them

void append_needed_forks(RecordBuffer& out, std::span<const std::byte> records) {
  const NeededForks forks(records);
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (forks.has(record, records)) out.insert(out.end(), record.begin(), record.end());
  }
}

std::string holes_text(const PartFacts& facts, bool estimated) {
  return fmt::format("{}{} of the rings' events are not in this part (`holes` says when, and why)",
                     estimated ? "about " : "", facts.lost_events);
}

}  // namespace

RecordBuffer PartContext::prologue(TrackerExport state) const {
  if (host_.own_pid_namespace)
    append_outside(state.prologue);
  else
    append_exiting(state.prologue);
  RecordBuffer out;
  append_kernel_maps(out, kernel_.maps);
  fit(state);
  append_needed_forks(out, state.prologue);
  out.insert(out.end(), state.log.begin(), state.log.end());
  return out;
}

// With all FORKs: each ends what the reader knows of the process until then.
RecordBuffer PartContext::records_of(TrackerExport state) const {
  fit(state);
  RecordBuffer out = std::move(state.prologue);
  out.insert(out.end(), state.log.begin(), state.log.end());
  return out;
}

void PartContext::fit(TrackerExport& state) const {
  fit_symbols(state.prologue, state.log, kernel_);
  relabel(state.log, rings_.attached->manifest, rings_.attached->events);
}

void PartContext::warn(const std::vector<std::string>& warnings) {
  const std::lock_guard lock(mutex_);
  for (const std::string& text : warnings)
    if (warnings_.size() < kMaxWarnings && std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end())
      warnings_.push_back(text);
}

std::vector<std::string> PartContext::warnings() const {
  const std::lock_guard lock(mutex_);
  return warnings_;
}

void PartContext::end_with(FileTexts texts) {
  const std::lock_guard lock(mutex_);
  file_texts_ = std::move(texts);
}

PartContext::FileTexts PartContext::file_texts() const {
  const std::lock_guard lock(mutex_);
  return file_texts_;
}

void PartContext::add_build_ids(const std::vector<TrackerExport::UserBuildId>& found) {
  const std::lock_guard lock(mutex_);
  for (const TrackerExport::UserBuildId& one : found) {
    if (build_ids_.size() >= kMaxBuildIds) return;
    const std::string id(one.id.bytes.begin(), one.id.bytes.begin() + one.id.size);
    if (listed_.insert(id + one.name).second) build_ids_.push_back(one);
  }
}

Features PartContext::features(const ClockPair& clock) {
  const std::lock_guard lock(mutex_);
  taken_ids_ = build_ids_.size();
  return file_features(host_, rings_.attached->manifest, kernel_.maps, build_ids_, clock);
}

std::vector<FileBuildId> PartContext::more_build_ids() {
  const std::lock_guard lock(mutex_);
  std::vector<FileBuildId> out;
  for (; taken_ids_ < build_ids_.size(); ++taken_ids_) {
    const auto& [id, name] = build_ids_[taken_ids_];
    out.push_back({.kernel = false, .id = {id.bytes.begin(), id.bytes.begin() + id.size}, .name = name});
  }
  return out;
}

Sidecar PartContext::begun() const {
  const Manifest& manifest = rings_.attached->manifest;
  Sidecar out;
  out.host = clean_host(host_.host.hostname);
  out.boot_id = manifest.boot_id;
  out.kernel = host_.host.os_release;
  out.kallsyms = symbols_->file(manifest.boot_id);
  out.version = kVersion;
  out.config_digest = manifest.config_digest;
  out.trigger = kRecordTrigger;
  out.capture = std::string(to_string(CaptureMode::live));
  out.warnings = kernel_.warnings;
  out.notes = kernel_.notes;
  describe_cpus(manifest, out);
  out.top_cpus.clear();  // nothing is counted
  return out;
}

void append_texts(std::vector<std::string>& out, const std::vector<std::string>& more) {
  out.insert(out.end(), more.begin(), more.end());
}

SidecarHole sidecar_hole(std::string channel, int cpu, const Hole& hole) {
  return {.channel = std::move(channel),
          .cpu = cpu,
          .begin_ns = hole.from_ns,
          .end_ns = hole.until_ns,
          .lost = hole.events,
          .cause = std::string(to_string(hole.cause)),
          .bytes = hole.bytes,
          .estimated = hole.estimated};
}

void describe_part(Sidecar& out, const PartFacts& facts, const RecordedRings& rings, const ClockHistory& clock,
                   EventTime at_ns) {
  out.size_bytes = facts.file_bytes;
  out.raw_bytes = facts.expanded_bytes;
  out.samples = facts.events;
  const bool empty = facts.newest_ns == 0;
  out.window = SidecarWindow::of(empty ? at_ns : facts.first_ns, empty ? at_ns : facts.newest_ns, clock);
  out.common_window = out.window;
  describe_clock(out, clock);
  for (const PartFacts::RingHole& one : facts.holes)
    out.holes.push_back(
        sidecar_hole(one.ring < rings.rings.size() ? rings.channel_of(one.ring) : std::string(), one.cpu, one.hole));
  const bool estimated = std::any_of(out.holes.begin(), out.holes.end(), [](const auto& one) { return one.estimated; });
  if (facts.lost_events > 0) out.warnings.push_back(holes_text(facts, estimated));
  if (facts.holes_left_out > 0)
    out.warnings.push_back(fmt::format("{} more {} are counted, and not listed", facts.holes_left_out, "holes"));
}

}  // namespace flight::daemon
