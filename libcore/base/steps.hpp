// SPDX-License-Identifier: Apache-2.0
// The steps of a snapshot by name, in order, for the test that kills flightd after each of them; then those that only a
// part of a recording has, which also takes the steps of a snapshot's commit. In flightd-steps
// (FLIGHT_STEPS, only for steps.cpp), the process stops after the step in the environment variable FLIGHT_STOP_AFTER;
// in flightd, after_step() does nothing. A new step is added here and called at its place.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace flight {

enum class Step {
  frozen,           // all rings are copied and resumed
  counted,          // what the blackout lost is known
  data_made,        // the first .partial file exists
  sidecar_made,     // the second one, too
  seq_written,      // the new number is in a temporary file
  numbered,         // it has its own name
  walked,           // the window is chosen
  exported,         // the process tracker's part is done
  streaming,        // a part of the data section is in the file
  streamed,         // the whole data section
  finished,         // features and header, too
  data_synced,      // the data file is complete and durable
  sidecar_written,  // the sidecar, too, once synced
  sidecar_synced,
  sidecar_named,
  data_named,
  folder_synced,
  answered,          // the requests were answered
  kallsyms_written,  // the kernel's symbols of this boot are in a .partial file
  kallsyms_named,
  part_made,       // its three files have the names of an unfinished part
  part_described,  // its sidecar says what is known when it begins
  part_tidied,     // both files have their names, and the journal is gone
  count_           // number of steps
};
inline constexpr auto kSnapshotSteps = static_cast<std::size_t>(Step::part_made);

inline constexpr std::array<std::string_view, static_cast<std::size_t>(Step::count_)> kStepNames{
    "frozen",           "counted",        "data_made",     "sidecar_made",   "seq_written",   "numbered",
    "walked",           "exported",       "streaming",     "streamed",       "finished",      "data_synced",
    "sidecar_written",  "sidecar_synced", "sidecar_named", "data_named",     "folder_synced", "answered",
    "kallsyms_written", "kallsyms_named", "part_made",     "part_described", "part_tidied"};

void after_step(Step step);

}  // namespace flight
