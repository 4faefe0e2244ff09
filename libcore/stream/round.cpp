// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/round.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace flight {
namespace {

Hole joined(const Hole& hole, const Hole& more) {
  return {.cause = hole.cause,
          .bytes = hole.bytes + more.bytes,
          .events = hole.events + more.events,
          .estimated = hole.estimated || more.estimated,
          .from_ns = std::min(hole.from_ns, more.from_ns),
          .until_ns = std::max(hole.until_ns, more.until_ns)};
}

}  // namespace

std::string_view to_string(HoleCause cause) {
  switch (cause) {
    case HoleCause::overwritten:
      return "overwritten";
    case HoleCause::disk:
      return "disk";
    case HoleCause::late:
      return "late";
    case HoleCause::paused:
      return "paused";
  }
  return "";
}

bool RingRound::empty() const { return blocks.empty() && holes.empty() && events == 0 && bytes == 0 && foreign == 0; }

void RingRound::add_hole(const Hole& hole) {
  const auto last =
      std::find_if(holes.rbegin(), holes.rend(), [&](const Hole& other) { return other.cause == hole.cause; });
  if (last != holes.rend()) {
    const Hole both = joined(*last, hole);
    const auto between = [&](const Block& block) {
      return block.newest_ns > both.from_ns && block.oldest_ns < both.until_ns;
    };
    if (holes.size() >= kMaxHoles || std::none_of(blocks.begin(), blocks.end(), between)) {
      *last = both;
      return;
    }
  }
  holes.push_back(hole);
}

void RingRound::append(RingRound&& later) {
  blocks.insert(blocks.end(), std::make_move_iterator(later.blocks.begin()),
                std::make_move_iterator(later.blocks.end()));
  later.blocks.clear();
  for (const Hole& hole : later.holes) add_hole(hole);
  later.holes.clear();
  events += later.events;
  bytes += later.bytes;
  foreign += later.foreign;
}

void RingRound::drop_older(EventTime floor_ns) {
  const auto stays = [&](const Block& block) { return block.oldest_ns >= floor_ns; };
  if (std::all_of(blocks.begin(), blocks.end(), stays)) return;
  std::vector<Block> kept, gone;
  for (Block& block : blocks) (stays(block) ? kept : gone).push_back(std::move(block));
  blocks = std::move(kept);
  for (const Block& block : gone)
    add_hole({.cause = HoleCause::late,
              .bytes = block.expanded_bytes,
              .events = block.events,
              .estimated = false,
              .from_ns = block.oldest_ns,
              .until_ns = block.newest_ns});
}

void append_rings(std::vector<RingRound>& rings, std::vector<RingRound>&& more) {
  for (RingRound& ring : more) {
    const auto known =
        std::find_if(rings.begin(), rings.end(), [&](const RingRound& other) { return other.ring == ring.ring; });
    if (known != rings.end()) {
      known->append(std::move(ring));
    } else {
      rings.push_back(std::move(ring));
    }
  }
  more.clear();
}

void Round::append(Round&& later) {
  append_rings(rings, std::move(later.rings));
  std::sort(rings.begin(), rings.end(), [](const RingRound& left, const RingRound& right) {
    return std::tie(left.cpu, left.ring) < std::tie(right.cpu, right.ring);
  });
  newest_ns = std::max(newest_ns, later.newest_ns);
}

}  // namespace flight
