// SPDX-License-Identifier: Apache-2.0
// The profile in the page, all of it: of one snapshot, or of two that are compared. viewer/src/payload.js reads it.
//
//   gzip of   {"format":2,"sides":[{…},{…}]}  and a newline: the head, in JSON
//             of each side its columns, each number a varint (LEB128):
//               nodes, from 1 on: how far before it its parent is; then their frames
//               samples, by time: ns since the sample before, the first one zigzag from the window's begin;
//               then their nodes, threads, CPUs and weights
//               then those of its scheduling, where it is recorded: page_sched.hpp
//
// A side has in its head: "sidecar" as it is, "notes", "event" (the one to show) of "events" (name, root, frequency,
// clock: whether weights are ns of a CPU), "objects" (name, build), "frames" (name, object, kind, named), "threads"
// (known, pid, tid, process, unit), "sched" (or null), and the numbers of its "nodes" and "samples". Lists of these are
// one array for each key. The sidecar is the first of them: the reader cuts it out of the text, too.
//
// Texts are exported_name(), but for those of the sidecar, which the reader makes printable. There are no addresses of
// memory: a place without a name is its object and its offset there.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/export/page_samples.hpp"
#include "libcore/export/page_sched.hpp"
#include "libcore/profile/profile.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

struct PageSide {
  const SnapshotProfile& profile;
  std::size_t event = 0;  // the one to show
  const PageSamples& samples;
  const Sidecar& sidecar;
  const std::vector<std::string>& notes;  // what is missing, for people
  const PageSched* sched = nullptr;       // nullptr: it is not recorded
};

using WritePage = std::function<Result<void>(std::span<const std::byte> bytes)>;

[[nodiscard]] Result<void> write_page_payload(std::span<const PageSide> sides, const WritePage& write);

}  // namespace flight
