// SPDX-License-Identifier: Apache-2.0
// The steps of a snapshot by name, in their order, for the one test that kills flightd after each of them. In its own
// program, flightd-steps (FLIGHT_STEPS), the process stops after the step that the environment names as
// FLIGHT_STOP_AFTER; in flightd after_step() is nothing. A new step belongs here and where it is taken.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#ifdef FLIGHT_STEPS
#include <csignal>
#include <cstdlib>
#endif

namespace flight {

enum class Step {
  frozen,           // all rings are copied, none is paused
  counted,          // what the blackout lost is known
  data_made,        // the first .partial file is there
  sidecar_made,     // the second, too
  seq_written,      // the new number is in a temporary file
  numbered,         // and under its own name
  walked,           // the window is chosen
  exported,         // the ledger's part is there
  streaming,        // some of the data section is in the file
  streamed,         // all of it
  finished,         // features and header, too
  data_synced,      // the data file is whole and durable
  sidecar_written,  // and so is the sidecar, once synced
  sidecar_synced,
  sidecar_named,
  data_named,
  folder_synced,
  answered,          // the askers were told
  kallsyms_written,  // the kernel's symbols of this boot are in a .partial file
  kallsyms_named,
  count_  // of steps
};

inline constexpr std::array<std::string_view, static_cast<std::size_t>(Step::count_)> kStepNames{
    "frozen",     "counted",       "data_made",       "sidecar_made",     "seq_written",
    "numbered",   "walked",        "exported",        "streaming",        "streamed",
    "finished",   "data_synced",   "sidecar_written", "sidecar_synced",   "sidecar_named",
    "data_named", "folder_synced", "answered",        "kallsyms_written", "kallsyms_named"};

inline void after_step([[maybe_unused]] Step step) {
#ifdef FLIGHT_STEPS
  const char* wanted = std::getenv("FLIGHT_STOP_AFTER");
  if (wanted != nullptr && kStepNames.at(static_cast<std::size_t>(step)) == wanted) std::raise(SIGSTOP);
#endif
}

}  // namespace flight
