// SPDX-License-Identifier: Apache-2.0
// Selects the maps of the kernel and its modules for the file of one window.
//
// perf does not consider the time of kernel maps: it puts all of them into one tree by address, never removes one, and
// gives the symbols of kallsyms to a module by its name when the first sample needs them. So a file may have at most
// one map for each address and for each module's name, and it must be the one that kallsyms (at the time of the
// snapshot) describes. If that is impossible, no map is written: perf then shows addresses, which is better than wrong
// names.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "libcore/broker/kernel_names.hpp"

namespace flight {

struct KernelWindow {
  std::vector<KernelMap> maps;
  // Which modules have no map, and other uncertainties; for people.
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  // possible problems of which there was no sign
};

// For the window [begin_ns, end_ns]. An unloaded module keeps its map, without symbols of kallsyms, if no other module
// had its addresses or its name.
[[nodiscard]] KernelWindow kernel_window(const KernelNames& names, EventTime begin_ns, EventTime end_ns);

// "ext4" for "/lib/modules/6.1.0/kernel/fs/ext4/ext4.ko.xz" and for "[ext4]".
[[nodiscard]] std::string module_name(const KernelMap& map);
// "a, b, c and 7 more", for a warning.
[[nodiscard]] std::string listed(const std::set<std::string>& modules);

}  // namespace flight
