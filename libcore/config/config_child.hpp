// SPDX-License-Identifier: Apache-2.0
// The process that reads the files of the configuration for flightd or flightd-broker (config_reader.hpp): their own
// program again, with a hidden option. It reads, sends what it found to its stdout, and ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flight {

inline constexpr std::string_view kConfigChild = "flightd-config";  // as in ps(1)
inline constexpr std::string_view kReadConfigOption = "--read-config-for-parent";

// The exit status of one that ran out of memory (EX_OSERR of sysexits.h).
inline constexpr int kConfigChildNoMemory = 71;
// The exit status of a process that reached the entry that another process waits for. Its arguments after the file name
// that entry: PATH and its entry_identity().
inline constexpr int kConfigChildSame = 75;  // EX_TEMPFAIL

// First thing in main(). It returns if this process is another one; else it reads, and ends at once (_exit(2)).
void run_config_child(int argc, char** argv);

// The program of this process and the arguments for it, also after an upgrade has replaced or removed the file.
[[nodiscard]] std::vector<std::string> config_child_command();

}  // namespace flight
