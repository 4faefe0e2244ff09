// SPDX-License-Identifier: Apache-2.0
// Folded stacks, the text that FlameGraph's flamegraph.pl, speedscope and others read: a line for each stack, the
// outermost frame first, the thread's name before it, and how many samples it has:
//
//   nginx;main;ngx_worker_process_cycle;epoll_wait 41
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/profile/profile.hpp"

namespace flight {

// Of one event, by its index in `events`. Names are printable(), and a ';' in one is a ':'. `write` is called with
// whole lines, some 100 KB at a time.
[[nodiscard]] Result<void> write_folded(const SnapshotProfile& profile, std::size_t event,
                                        const std::function<Result<void>(std::string_view lines)>& write);

// The event that a view shows, of those that the filter wants: the first one with a frequency that has samples, else
// the first one that has any, else the first one with a frequency, else the first.
[[nodiscard]] std::size_t main_event(const SnapshotProfile& profile);

}  // namespace flight
