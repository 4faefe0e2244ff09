// SPDX-License-Identifier: Apache-2.0
// Removes the maps of modules from a file if samples show that other code had these addresses before the module was
// loaded or after it was unloaded: the init part of another module (which /proc/modules does not show), a module whose
// load failed, BPF or ftrace code. perf would give the module's names to that code.
#pragma once

#include "libcore/snapshot/kernel_window.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight {

// Reads the samples of the window, if a module was loaded or unloaded in it. Each aligned 8-byte word of a record that
// is in a module's range counts as an address of that module, whatever field it is. A word that is not an address can
// remove a module's names; it cannot make a name wrong.
void drop_strays(KernelWindow& kernel, const Selection& selection);

}  // namespace flight
