// SPDX-License-Identifier: Apache-2.0
// A metric's last minute as one line of bars, with a mark below where its trigger fired:
//
//   ▁▁▁▁▁▁▁▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁██████████    1.5 % .. 97 %
//                                        ^ fired 03:12:02
#pragma once

#include <string>
#include <vector>

namespace flight::ctl {

struct Sparkline {
  std::string bars;            // one for each cell; ' ' where nothing is known
  double least = 0, most = 0;  // of what is known
  std::size_t cells = 0;       // 0: nothing is known at all
};

// `values` are one a step, NaN where not known; a cell shows the largest of its values, so that a burst is seen. Bars
// reach from 0 to `full`, or to the largest value, if that is more.
[[nodiscard]] Sparkline sparkline(const std::vector<double>& values, std::size_t most_cells, double full, bool utf8);

}  // namespace flight::ctl
