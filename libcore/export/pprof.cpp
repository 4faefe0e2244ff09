// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/pprof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "libcore/export/exported_name.hpp"
#include "libcore/export/gzip.hpp"

namespace flight {
namespace {

constexpr std::size_t kPprofPieceBytes = 64U << 10U;
constexpr std::uint64_t kMappingRound = 4096;
constexpr std::int64_t kNsOfASecond = 1'000'000'000;

// Field numbers of profile.proto.
namespace field {
enum Profile : protozero::pbf_tag_type {
  sample_type = 1,
  sample = 2,
  mapping = 3,
  location = 4,
  function = 5,
  string_table = 6,
  time_nanos = 9,
  duration_nanos = 10,
  period_type = 11,
  period = 12,
  comment = 13,
  default_sample_type = 14,
};
enum ValueType : protozero::pbf_tag_type { type = 1, unit = 2 };
enum Sample : protozero::pbf_tag_type { location_id = 1, value = 2, label = 3 };
enum Label : protozero::pbf_tag_type { key = 1, str = 2, num = 3 };
enum Mapping : protozero::pbf_tag_type {
  mapping_number = 1,
  memory_start = 2,
  memory_limit = 3,
  filename = 5,
  build_id = 6,
  has_functions = 7,
  has_filenames = 8,
  has_line_numbers = 9,
};
enum Location : protozero::pbf_tag_type { location_number = 1, mapping_id = 2, address = 3, line = 4 };
enum Line : protozero::pbf_tag_type { function_id = 1 };
enum Function : protozero::pbf_tag_type { function_number = 1, name = 2, system_name = 3 };
}  // namespace field

std::string hex_of(const BuildId& build_id) {
  std::string out;
  for (std::size_t i = 0; i < build_id.size; ++i) out += fmt::format("{:02x}", build_id.bytes.at(i));
  return out;
}

// Messages may come in any order, so each string is written before the first message that has its number.
class PprofWriter {
 public:
  PprofWriter(const SnapshotProfile& profile, std::size_t event, const LabelledStacks& stacks, GzipWriter& to)
      : profile_(profile), event_(profile.events[event]), stacks_(stacks), to_(to) {}

  [[nodiscard]] Result<void> write(const PprofFacts& facts) {
    static_cast<void>(add_string(""));  // number 0
    write_facts(facts);
    find_used();
    for (std::uint32_t i = 1; i < used_objects_.size(); ++i)
      if (used_objects_[i].used) write_mapping(i);
    if (auto written = flush(); !written) return written;
    for (std::uint32_t frame = 0; frame < used_frames_.size(); ++frame) {
      if (!used_frames_[frame]) continue;
      write_location(frame);
      if (auto written = flush_if_large(); !written) return written;
    }
    for (const LabelledStacks::Stack& stack : stacks_.stacks()) {
      if (root_of_[stack.node] != event_.root) continue;
      write_sample(stack);
      if (auto written = flush_if_large(); !written) return written;
    }
    return flush();
  }

 private:
  struct UsedObject {
    bool used = false, all_named = true;
    std::uint64_t end = 0;
  };

  [[nodiscard]] std::int64_t add_string(std::string_view text) {
    const std::string name = exported_name(text);
    message_.add_string(field::string_table, name.data(), name.size());
    return strings_++;
  }
  // One that is likely to be needed again.
  [[nodiscard]] std::int64_t string_of(const std::string& text) {
    const auto [known, added] = numbers_.try_emplace(text, 0);
    if (added) known->second = add_string(text);
    return known->second;
  }

  void add_value_type(field::Profile tag, std::string_view type, std::string_view unit) {
    const std::int64_t type_number = string_of(std::string(type)), unit_number = string_of(std::string(unit));
    protozero::pbf_writer message(message_, tag);
    message.add_int64(field::type, type_number);
    message.add_int64(field::unit, unit_number);
  }

  void write_facts(const PprofFacts& facts) {
    add_value_type(field::sample_type, "samples", "count");
    if (event_.is_clock) add_value_type(field::sample_type, "cpu", "nanoseconds");
    if (event_.is_clock && event_.frequency != 0) {
      add_value_type(field::period_type, "cpu", "nanoseconds");
      message_.add_int64(field::period, kNsOfASecond / static_cast<std::int64_t>(event_.frequency));
    }
    message_.add_int64(field::time_nanos, facts.begin.count());
    message_.add_int64(field::duration_nanos, facts.duration.count());
    message_.add_int64(field::default_sample_type, string_of(event_.is_clock ? "cpu" : "samples"));
    for (const std::string& comment : facts.comments) {
      const std::int64_t number = add_string(comment);
      message_.add_int64(field::comment, number);
    }
  }

  void find_used() {
    const std::vector<StackNode>& nodes = profile_.tree.nodes();
    root_of_.resize(nodes.size());
    for (std::uint32_t i = 1; i < nodes.size(); ++i)
      root_of_[i] = nodes[i].frame == FrameTable::kRoot ? i : root_of_[nodes[i].parent];
    used_frames_.resize(profile_.frames.size());
    used_objects_.resize(profile_.objects.size());
    for (std::uint32_t i = 1; i < nodes.size(); ++i) {
      const StackFrame& frame = profile_.frames[nodes[i].frame];
      if (root_of_[i] != event_.root || frame.kind == StackFrameKind::root || frame.kind == StackFrameKind::task)
        continue;
      used_frames_[nodes[i].frame] = true;
      if (frame.kind != StackFrameKind::code || frame.object == 0) continue;
      UsedObject& object = used_objects_[frame.object];
      object.used = true;
      object.all_named = object.all_named && frame.name != 0;
      object.end = std::max(object.end, frame.offset);
    }
  }

  void write_mapping(std::uint32_t number) {
    const CodeObject& object = profile_.objects[number];
    const UsedObject& used = used_objects_[number];
    const std::int64_t name = add_string(object.name);
    const std::int64_t build_id = object.build_id.size > 0 ? add_string(hex_of(object.build_id)) : 0;
    protozero::pbf_writer message(message_, field::mapping);
    message.add_uint64(field::mapping_number, number);
    message.add_uint64(field::memory_start, 0);
    const std::uint64_t last = used.end | (kMappingRound - 1);
    message.add_uint64(field::memory_limit, last == UINT64_MAX ? last : last + 1);
    message.add_int64(field::filename, name);
    if (build_id != 0) message.add_int64(field::build_id, build_id);
    message.add_bool(field::has_functions, used.all_named);
    // There are none. If one of these is missing, pprof reads the file for them.
    message.add_bool(field::has_filenames, used.all_named);
    message.add_bool(field::has_line_numbers, used.all_named);
  }

  // A frame, its only function and its place have the same number.
  void write_location(std::uint32_t number) {
    const StackFrame& frame = profile_.frames[number];
    const std::int64_t name = add_string(profile_.text_of(number));
    {
      protozero::pbf_writer function(message_, field::function);
      function.add_uint64(field::function_number, number);
      function.add_int64(field::name, name);
      function.add_int64(field::system_name, name);
    }
    protozero::pbf_writer location(message_, field::location);
    location.add_uint64(field::location_number, number);
    if (frame.kind == StackFrameKind::code && frame.object != 0) {
      location.add_uint64(field::mapping_id, frame.object);
      location.add_uint64(field::address, frame.offset);
    }
    protozero::pbf_writer line(location, field::line);
    line.add_uint64(field::function_id, number);
  }

  struct Label {
    std::int64_t key = 0, text = 0, number = 0;
  };
  void add_label(std::string_view key, std::uint32_t text) {
    if (text == 0) return;
    const std::int64_t key_number = string_of(std::string(key));
    labels_.push_back({.key = key_number, .text = string_of(profile_.texts[text]), .number = 0});
  }
  void add_label(std::string_view key, const std::string& text) {
    const std::int64_t key_number = string_of(std::string(key));
    labels_.push_back({.key = key_number, .text = string_of(text), .number = 0});
  }
  void add_number(std::string_view key, std::uint32_t number) {
    labels_.push_back({.key = string_of(std::string(key)), .text = 0, .number = number});
  }

  // Also makes the path: the innermost frame first.
  void find_labels(const LabelledStacks::Stack& stack) {
    const std::vector<StackNode>& nodes = profile_.tree.nodes();
    path_.clear();
    labels_.clear();
    std::uint32_t thread = 0;
    for (std::uint32_t at = stack.node; nodes[at].frame != FrameTable::kRoot; at = nodes[at].parent) {
      const StackFrame& frame = profile_.frames[nodes[at].frame];
      if (frame.kind == StackFrameKind::task)
        thread = frame.name;
      else
        path_.push_back(nodes[at].frame);
    }
    const LabelledStacks::Origin& origin = stacks_.origins()[stack.origin];
    if (!origin.known) return;
    add_label("comm", origin.process);
    add_number("pid", origin.pid);
    add_label("unit", origin.unit);
    add_label("cgroup", origin.cgroup);
    if (stacks_.labels().thread) add_label("thread", thread);
    if (stacks_.labels().tid) add_number("tid", stack.tid);
    if (stacks_.labels().cpu) add_label("cpu", std::to_string(stack.cpu));
  }

  void write_sample(const LabelledStacks::Stack& stack) {
    find_labels(stack);
    values_.assign({static_cast<std::int64_t>(stack.value.samples)});
    if (event_.is_clock) values_.push_back(static_cast<std::int64_t>(stack.value.weight));
    protozero::pbf_writer message(message_, field::sample);
    message.add_packed_uint64(field::location_id, path_.begin(), path_.end());
    message.add_packed_int64(field::value, values_.begin(), values_.end());
    for (const Label& label : labels_) {
      protozero::pbf_writer sub(message, field::label);
      sub.add_int64(field::key, label.key);
      if (label.text != 0)
        sub.add_int64(field::str, label.text);
      else
        sub.add_int64(field::num, label.number);
    }
  }

  [[nodiscard]] Result<void> flush_if_large() { return buffer_.size() < kPprofPieceBytes ? Result<void>() : flush(); }
  [[nodiscard]] Result<void> flush() {
    auto added = to_.add(buffer_);
    buffer_.clear();
    return added;
  }

  const SnapshotProfile& profile_;
  const ProfileEvent& event_;
  const LabelledStacks& stacks_;
  GzipWriter& to_;
  std::string buffer_;
  protozero::pbf_writer message_{buffer_};
  std::int64_t strings_ = 0;
  std::unordered_map<std::string, std::int64_t> numbers_;  // of labels and types
  std::vector<std::uint32_t> root_of_;                     // by node
  std::vector<bool> used_frames_;
  std::vector<UsedObject> used_objects_;
  std::vector<std::uint64_t> path_;
  std::vector<std::int64_t> values_;
  std::vector<Label> labels_;
};

}  // namespace

Result<void> write_pprof(const SnapshotProfile& profile, std::size_t event, const LabelledStacks& stacks,
                         const PprofFacts& facts,
                         const std::function<Result<void>(std::span<const std::byte> bytes)>& write) {
  auto to = GzipWriter::create(write);
  if (!to) return propagate(to.error());
  PprofWriter writer(profile, event, stacks, *to);
  if (auto written = writer.write(facts); !written) return written;
  return to->finish();
}

}  // namespace flight
