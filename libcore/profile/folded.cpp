// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/folded.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "libcore/base/text.hpp"

namespace flight {
namespace {

constexpr std::size_t kPieceBytes = 128U << 10U;

// For each frame its text, when it is needed first.
class FoldedTexts {
 public:
  explicit FoldedTexts(const SnapshotProfile& profile) : profile_(profile), texts_(profile.frames.size()) {}

  [[nodiscard]] const std::string& of(std::uint32_t frame) {
    std::string& text = texts_[frame];
    if (!text.empty()) return text;
    text = printable(profile_.text_of(frame));
    std::replace(text.begin(), text.end(), ';', ':');
    if (text.empty()) text = "?";  // a thread whose name is empty
    return text;
  }

 private:
  const SnapshotProfile& profile_;
  std::vector<std::string> texts_;
};

}  // namespace

Result<void> write_folded(const SnapshotProfile& profile, std::size_t event,
                          const std::function<Result<void>(std::string_view lines)>& write) {
  const std::vector<StackNode>& nodes = profile.tree.nodes();
  const std::uint32_t root = profile.events[event].root;
  FoldedTexts texts(profile);
  std::string piece;
  std::vector<std::uint32_t> path;
  for (std::uint32_t node = 1; node < nodes.size(); ++node) {
    if (nodes[node].self.all.samples == 0) continue;
    path.clear();
    std::uint32_t at = node;
    for (; nodes[at].frame != FrameTable::kRoot; at = nodes[at].parent) path.push_back(nodes[at].frame);
    if (at != root) continue;
    for (std::size_t i = path.size(); i-- > 0;) {
      piece += texts.of(path[i]);
      piece += i > 0 ? ';' : ' ';
    }
    fmt::format_to(std::back_inserter(piece), "{}\n", nodes[node].self.all.samples);
    if (piece.size() < kPieceBytes) continue;
    if (auto written = write(piece); !written) return written;
    piece.clear();
  }
  return piece.empty() ? Result<void>() : write(piece);
}

std::size_t main_event(const SnapshotProfile& profile) {
  const auto totals = profile.tree.totals();
  std::size_t best = 0;
  int best_rank = -1;
  for (std::size_t i = 0; i < profile.events.size(); ++i) {
    const bool samples = totals[profile.events[i].root].all.samples > 0;
    const int rank = 4 * static_cast<int>(profile.events[i].wanted) + 2 * static_cast<int>(samples) +
                     static_cast<int>(profile.events[i].frequency != 0);
    if (rank <= best_rank) continue;
    best = i;
    best_rank = rank;
  }
  return best;
}

}  // namespace flight
