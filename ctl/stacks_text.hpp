// SPDX-License-Identifier: Apache-2.0
// The page of `flightctl stacks`: the rows of a call tree with their values, in CPUs or as shares.
//
//     now  before
//    1.71    0.32  all
//    0.94    0.00    burner > main > work
//    0.60    0.00      read
//
// A change that is noise has a '~'.
#pragma once

#include <string>
#include <vector>

#include "ctl/screen.hpp"
#include "libcore/profile/change.hpp"
#include "libcore/profile/profile.hpp"
#include "libcore/profile/tree_view.hpp"

namespace flight::ctl {

// What the values of the rows are.
struct StacksColumns {
  bool in_cpus = true;                    // otherwise shares of the samples' weight, 0 to 1
  bool compared = false, change = false;  // columns for `before`, and for the change
  // Without `compared`, that of `now` is for the whole time.
  StackScales scales = {.now = 0, .before = 0};

  [[nodiscard]] double now(const StackValues& values) const;
  [[nodiscard]] double before(const StackValues& values) const;
};

[[nodiscard]] std::string stacks_text(const SnapshotProfile& profile, const TreeView& view,
                                      const StacksColumns& columns, const Screen& screen);

// "server > main > (7 more) > work > read": cut in the middle to `most` columns. Names are made printable.
[[nodiscard]] std::string chain_text(const std::vector<std::string>& names, std::size_t most, const Screen& screen);

}  // namespace flight::ctl
