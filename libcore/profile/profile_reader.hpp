// SPDX-License-Identifier: Apache-2.0
// The two passes over a file. Private to this module.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "libcore/perf/record.hpp"
#include "libcore/profile/profile.hpp"
#include "libcore/profile/sideband_timeline.hpp"

namespace flight {

class ProfileReader {
 public:
  // `order` must outlive it.
  explicit ProfileReader(const ProfileOrder& order);

  [[nodiscard]] Result<void> take_events(const std::vector<FileEvent>& events);
  // Each record of the file, in any order; then between(), and each again.
  void note(std::span<const std::byte> record);
  void between();
  void count(std::span<const std::byte> record);
  // ETIMEDOUT: the deadline was over before all names were read.
  [[nodiscard]] Result<SnapshotProfile> finish();

 private:
  // Whose code an address is: a space, and how much of it is mapped then.
  struct Code {
    std::uint32_t space = AddressSpaces::kNone, mapped = 0;
  };
  // A frame that was found before.
  struct Known {
    Code code;
    std::uint32_t frame = 0;  // 0: none
    std::uint64_t address = 0;
  };

  // For CountedSample.
  struct CgroupTexts {
    std::uint32_t unit = 0, path = 0;
  };

  [[nodiscard]] bool needs_lives() const {
    return !order_.only.unit.empty() || !order_.only.program.empty() || order_.each;
  }
  [[nodiscard]] bool is_wanted(const RecordKey& key, const SampleFields& sample) const;
  [[nodiscard]] std::uint32_t unit_of(const SampleFields& sample);
  [[nodiscard]] std::uint64_t known_cgroup(const SampleFields& sample) const;
  [[nodiscard]] bool is_of_process(const SampleFields& sample, EventTime time_ns);
  void pass_on(const RecordKey& key, const SampleFields& sample, std::uint32_t node, std::uint64_t weight);
  [[nodiscard]] std::uint32_t process_text(std::uint32_t pid, EventTime time_ns);
  [[nodiscard]] CgroupTexts cgroup_texts(const SampleFields& sample);
  [[nodiscard]] StackValues values_of(const RecordKey& key, const SampleCalls& calls) const;
  void find_path(const SampleFields& sample, std::uint16_t misc, const SampleCalls& calls, SidebandPosition position);
  // False: the chain is bad.
  [[nodiscard]] bool append_chain(const SampleCalls& calls, const Code& kernel, const Code& user);
  [[nodiscard]] std::uint32_t frame_at(const Code& code, std::uint64_t address);
  [[nodiscard]] std::uint32_t new_frame(const Code& code, std::uint64_t address);

  const ProfileOrder& order_;
  SnapshotProfile out_;
  SidebandTimeline timeline_;
  FunctionNames names_;
  FrameTable frames_;
  EventTable events_;
  std::vector<std::uint64_t> sample_types_, periods_;  // by event; the period if a sample has none
  std::vector<bool> wanted_events_;
  std::unordered_set<std::uint32_t> sampled_;                                    // pids
  std::optional<Lives> lives_;                                                   // if needed
  std::unordered_map<std::uint64_t, std::uint32_t> process_texts_;               // by pid and number of the life
  std::map<std::pair<std::uint64_t, std::uint32_t>, CgroupTexts> cgroup_texts_;  // by cgroup and unit
  std::vector<Known> known_;                                                     // by a hash
  std::vector<std::uint32_t> path_;  // of the present sample, the innermost frame first
};

}  // namespace flight
