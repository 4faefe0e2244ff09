// SPDX-License-Identifier: Apache-2.0
// What the tasks of one process were called before a rename (prctl(PR_SET_NAME)), for renames that are folded while
// windows still begin before them: state has only the newest name. Private to sideband.
//
//   names of a task     A        B          C         (in the image or the thread)
//   kept                A until ─┘ B until ─┘
//
// If there are too many, or memory is short, the oldest are lost, and so are those of the process's other tasks of that
// time: all are called kLostName until then. A name is never replaced by a later one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/sideband/comm.hpp"

namespace flight {

class PastNames {
 public:
  PastNames() = default;
  PastNames(const PastNames& other) : kept_(other.kept_ ? std::make_unique<Kept>(*other.kept_) : nullptr) {}
  PastNames(PastNames&&) noexcept = default;
  PastNames& operator=(const PastNames& other) { return *this = PastNames(other); }
  PastNames& operator=(PastNames&&) noexcept = default;
  ~PastNames() = default;

  // About as many as a process can add in a second (Intake::kNamesPerSecond).
  static constexpr std::size_t kMost = 1024;

  struct Since {
    EventTime since_ns = 0;
    Comm comm{};
  };
  // Names that were lost, and the last rename among them.
  struct Lost {
    std::uint64_t count = 0;
    EventTime until_ns = 0;
  };

  // The task got the name `now` at that time, and had `current` before. Sets `current`, unless a later name is known:
  // then the record came late. Returns what was lost because there are too many. `to_ns`: when its image or thread
  // ended, of which `current` is the last name; ~0: it lives.
  Lost rename(std::uint32_t tid, EventTime time_ns, Comm& current, const Comm& now, EventTime to_ns = ~EventTime{0});
  // The name that the task has from that time on: `current`, or one before a later rename up to `to_ns`.
  [[nodiscard]] Comm& at(std::uint32_t tid, EventTime time_ns, Comm& current, EventTime to_ns);
  // No window begins earlier any more.
  void forget(EventTime before_ns);
  // Frees memory: loses the names of renames before that. `needed_ns`: no window begins earlier.
  Lost lose(EventTime before_ns, EventTime needed_ns);
  // The names of the task in [from, to), ascending: at least one, the last one is `last` if that is not lost. to: ~0:
  // it lives.
  [[nodiscard]] std::vector<Since> of(std::uint32_t tid, EventTime from_ns, EventTime to_ns, const Comm& last) const;
  [[nodiscard]] bool empty() const { return kept_ == nullptr; }
  [[nodiscard]] std::size_t count() const { return kept_ ? kept_->names.size() : 0; }
  [[nodiscard]] std::size_t bytes() const { return kept_ ? sizeof(Kept) + kept_->names.capacity() * sizeof(Name) : 0; }

 private:
  struct Name {
    EventTime until_ns = 0;
    std::uint32_t tid = 0;
    Comm comm{};
  };
  struct Kept {
    std::vector<Name> names;  // ascending in time
    EventTime lost_until_ns = 0;
  };
  void drop(EventTime before_ns);
  [[nodiscard]] std::vector<Name>::iterator first_after(EventTime time_ns);  // of `kept_`, which is there
  std::unique_ptr<Kept> kept_;  // nullptr: nothing, as in nearly all processes
};

}  // namespace flight
