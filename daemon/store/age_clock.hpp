// SPDX-License-Identifier: Apache-2.0
// What is known about the clock when snapshots are deleted because of their age: the clocks now, their record
// (libcore/store/clock_record.hpp) in STATE/clock.state, and the times of snapshots. Store thread only, because a disk
// may block.
#pragma once

#include <string>

#include "libcore/store/catalogue.hpp"
#include "libcore/store/doubtful_time.hpp"

namespace flight::daemon {

class AgeClock {
 public:
  static constexpr const char* kFile = "clock.state";

  // `state_dir`: STATE; must exist.
  AgeClock(std::string state_dir, std::string boot_id)
      : state_dir_(std::move(state_dir)), boot_id_(std::move(boot_id)) {}

  // Before each vacuum: a step of the clock must be seen before anything is deleted by it. An error of the file is
  // logged once: then only a restart forgets what was seen.
  StoreClock look();
  // With the snapshots' times; reads sidecars that the catalogue does not know yet.
  [[nodiscard]] StoreClock look(Catalogue& catalogue);

 private:
  void load();
  void save();

  const std::string state_dir_, boot_id_;
  ClockRecord record_;
  bool loaded_ = false, failed_ = false;
};

}  // namespace flight::daemon
