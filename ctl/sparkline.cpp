// SPDX-License-Identifier: Apache-2.0
#include "ctl/sparkline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace flight::ctl {
namespace {

constexpr std::array<std::string_view, 8> kBars{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kAsciiBars{"_", ".", "-", "~", "=", "+", "*", "#"};

}  // namespace

Sparkline sparkline(const std::vector<double>& values, std::size_t most_cells, double full, bool utf8) {
  Sparkline out;
  out.least = std::numeric_limits<double>::infinity();
  out.most = -out.least;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    out.least = std::min(out.least, value);
    out.most = std::max(out.most, value);
  }
  if (out.least > out.most || most_cells == 0) return {};
  out.cells = std::min(most_cells, values.size());
  const double top = std::max({std::isfinite(full) ? full : 0, out.most, 1e-9});
  for (std::size_t cell = 0; cell < out.cells; ++cell) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t i = cell * values.size() / out.cells; i < (cell + 1) * values.size() / out.cells; ++i)
      if (std::isfinite(values[i])) largest = std::max(largest, values[i]);
    if (!std::isfinite(largest)) {
      out.bars += ' ';
      continue;
    }
    const double height = std::clamp(largest / top, 0.0, 1.0) * static_cast<double>(kBars.size());
    const std::size_t bar = std::min(static_cast<std::size_t>(height), kBars.size() - 1);
    out.bars += utf8 ? kBars[bar] : kAsciiBars[bar];
  }
  return out;
}

}  // namespace flight::ctl
