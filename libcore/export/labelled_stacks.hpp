// SPDX-License-Identifier: Apache-2.0
// Samples, added up by their stacks and by what a profile's labels say of them. Bounded: what would need one stack more
// is added to that stack without labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "libcore/profile/profile.hpp"

namespace flight {

// Labels that are there only if they are asked for: each makes the profile larger.
struct ExtraLabels {
  bool thread = false;  // the name; the stack has it already
  bool tid = false, cpu = false;
};

class LabelledStacks {
 public:
  static constexpr std::size_t kMostStacks = 1U << 20U, kMostOrigins = 1U << 18U;

  // Texts as in CountedSample. The first is of those whose origin is not kept.
  struct Origin {
    std::uint32_t process = 0, pid = 0, unit = 0, cgroup = 0;
    bool known = false;
  };
  struct Stack {
    std::uint32_t node = 0, origin = 0;  // of the tree; in origins()
    std::uint32_t tid = 0, cpu = 0;      // 0 without these labels
    StackValue value;
  };

  explicit LabelledStacks(const ExtraLabels& labels, std::size_t most_stacks = kMostStacks,
                          std::size_t most_origins = kMostOrigins);
  void add(const CountedSample& sample);

  [[nodiscard]] const ExtraLabels& labels() const { return labels_; }
  [[nodiscard]] const std::vector<Origin>& origins() const { return origins_; }
  [[nodiscard]] const std::vector<Stack>& stacks() const { return stacks_; }      // in the order in which they came
  [[nodiscard]] std::uint64_t without_labels() const { return without_labels_; }  // samples, over the limits

 private:
  [[nodiscard]] std::uint32_t origin_of(const CountedSample& sample);
  [[nodiscard]] std::size_t slot_of(const Stack& stack) const;
  [[nodiscard]] StackValue& value_of(const Stack& stack);
  void grow();

  ExtraLabels labels_;
  std::size_t most_stacks_, most_origins_;
  std::vector<Origin> origins_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> origin_numbers_;
  std::vector<Stack> stacks_;
  std::vector<std::uint32_t> slots_;  // a hash table of the stacks by all but their values: the number + 1; 0: free
  std::uint64_t without_labels_ = 0;
};

}  // namespace flight
