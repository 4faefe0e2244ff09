// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/floods.hpp"

#include <algorithm>

#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/sideband/gaps.hpp"
#include "libcore/sideband/intake.hpp"

namespace flight {

void Floods::add(const Flood& flood) {
  const auto known = std::find_if(all_.rbegin(), all_.rend(), [&](const Flood& one) {
    return one.pid == flood.pid && one.renames == flood.renames && flood.begin_ns <= one.end_ns + kOneNs;
  });
  if (known != all_.rend()) {
    known->left_out += flood.left_out;
    known->end_ns = std::max(known->end_ns, flood.end_ns);
    return;
  }
  all_.push_back(flood);
  if (all_.size() <= kMost) return;
  // There are too many: joins the two oldest ones. The result is of no process in particular (pid 0).
  Flood& first = all_[0];
  Flood& second = all_[1];
  second = {.pid = 0,
            .left_out = first.left_out + second.left_out,
            .begin_ns = first.begin_ns,
            .end_ns = std::max(first.end_ns, second.end_ns),
            .renames = first.renames && second.renames};
  all_.erase(all_.begin());
}

void Floods::forget(EventTime before_ns) {
  std::erase_if(all_, [before_ns](const Flood& flood) { return flood.end_ns < before_ns; });
}

std::vector<std::string> Floods::texts(EventTime begin_ns, EventTime end_ns, const Names& names) const {
  std::vector<Flood> some;
  for (const Flood& flood : all_)
    if (flood.begin_ns <= end_ns && flood.end_ns >= begin_ns) some.push_back(flood);
  std::stable_sort(some.begin(), some.end(), [](const Flood& a, const Flood& b) {
    return (a.pid != 0) != (b.pid != 0) ? a.pid != 0 : a.left_out > b.left_out;
  });
  std::vector<std::string> out;
  const auto nameless = std::find_if(some.begin(), some.end(), [](const Flood& flood) { return flood.pid == 0; });
  const std::span<const Flood> listed(
      some.data(), std::min(kListed, static_cast<std::size_t>(std::distance(some.begin(), nameless))));
  std::vector<std::string> comms;
  if (!listed.empty()) comms = names(listed);
  std::uint64_t others = 0, other_names = 0;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const Flood& flood = some[i];
    if (i >= listed.size()) {
      (flood.renames ? other_names : others) += flood.left_out;
      continue;
    }
    const std::string comm = own_name(comms.at(i));
    if (flood.renames) {
      out.push_back(
          fmt::format("names: {} (pid {}) renamed its tasks more than {} times a second: {} {} not kept, so "
                      "these tasks are called {} at times",
                      comm.empty() ? "a process" : comm, flood.pid, Intake::kNamesPerSecond,
                      counted(flood.left_out, "name"), was_or_were(flood.left_out), kLostName));
      continue;
    }
    out.push_back(fmt::format(
        "names: {} (pid {}) mapped executable memory more than {} times a second: {} of its mappings {} not kept, so "
        "its names are incomplete: code there is in {} until the next look at the process",
        comm.empty() ? "a process" : comm, flood.pid, Intake::kMapsPerSecond, flood.left_out,
        was_or_were(flood.left_out), kLostName));
  }
  if (others > 0)
    out.push_back(fmt::format("names: {} of other processes like that {} not kept", counted(others, "mapping"),
                              was_or_were(others)));
  if (other_names > 0)
    out.push_back(fmt::format("names: {} of other processes like that {} not kept", counted(other_names, "name"),
                              was_or_were(other_names)));
  return out;
}

}  // namespace flight
