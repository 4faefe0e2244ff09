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
  std::string bars;            // one for each cell; ' ' if nothing is known
  double least = 0, most = 0;  // of the known values
  std::size_t cells = 0;       // 0: no value is known
};

// `values` has one value per step, NaN if not known. A cell shows the largest of its values, so that a burst is
// visible. Bars reach from 0 to `full`, or to the largest value if that is larger.
[[nodiscard]] Sparkline sparkline(const std::vector<double>& values, std::size_t most_cells, double full, bool utf8);

}  // namespace flight::ctl
