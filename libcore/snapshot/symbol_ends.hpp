// SPDX-License-Identifier: Apache-2.0
// Makes the symbols of generated code (KSYMBOL records) fit each other and the maps of modules, as perf needs it. perf
// has one tree of kernel maps by address: a symbol inside of a module's map becomes a symbol of the module, its end
// removes the module's map, and of two maps that overlap it takes either.
#pragma once

#include "libcore/perf/record_build.hpp"
#include "libcore/snapshot/kernel_window.hpp"

namespace flight {

// `kernel`: after drop_strays(). A symbol whose end is a guess ends at the next symbol or map. A symbol at an address
// of a module is dropped: no sample of the window belongs to it, otherwise drop_strays() would have dropped the map.
void fit_symbols(RecordBuffer& prologue, RecordBuffer& log, const KernelWindow& kernel);

}  // namespace flight
