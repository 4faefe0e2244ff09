// SPDX-License-Identifier: Apache-2.0
#include "ctl/info_changed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ctl/kallsyms.hpp"
#include "ctl/output.hpp"
#include "ctl/profiled.hpp"
#include "ctl/stacks_page.hpp"
#include "ctl/stacks_text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/profile/folded.hpp"
#include "libcore/profile/tree_view.hpp"

namespace flight::ctl {
namespace {

constexpr std::uint64_t kMostChangedBytes = 32U << 20U;  // of records, without compression
constexpr std::chrono::seconds kMostChangedTime(1);      // for the records, and the files of the programs in them
constexpr std::size_t kChangedRows = 6, kChangedPaths = 3;

struct ChangedPath {
  std::vector<std::uint32_t> frames;  // the outermost first
  StackValues total;                  // of the last ones
};

// Of the rows that changed most those that have none below them, the largest change first.
std::vector<ChangedPath> changed_paths(const TreeView& view, const StackScales& scales) {
  std::vector<ChangedPath> out;
  std::vector<std::vector<std::uint32_t>> callers(1);  // by depth
  for (std::size_t i = 1; i < view.rows.size(); ++i) {
    const TreeRow& row = view.rows[i];
    callers.resize(row.depth);
    std::vector<std::uint32_t> path = callers.back();
    path.insert(path.end(), row.frames.begin(), row.frames.end());
    if (i + 1 == view.rows.size() || view.rows[i + 1].depth <= row.depth)
      out.push_back({.frames = path, .total = row.total});
    callers.push_back(std::move(path));
  }
  std::stable_sort(out.begin(), out.end(), [&](const ChangedPath& a, const ChangedPath& b) {
    return std::abs(change_of(a.total, scales)) > std::abs(change_of(b.total, scales));
  });
  if (out.size() > kChangedPaths) out.resize(kChangedPaths);
  return out;
}

std::string command_of_all(const Common& common, const Sidecar& sidecar) {
  return fmt::format("`flightctl {}stacks {} --diff`", common.host.empty() ? "" : "-H " + common.host + " ",
                     printable(sidecar.id));
}

Result<SnapshotProfile> read_changed(const Common& common, const Sidecar& sidecar) {
  if (!common.host.empty()) return flight::fail(std::errc::not_supported, "the snapshot is on another machine");
  if (sidecar.raw_bytes > kMostChangedBytes)
    return flight::fail(std::errc::file_too_large, "the snapshot has {} without compression, more than {}",
                        format_bytes(sidecar.raw_bytes), format_bytes(kMostChangedBytes));
  const auto data = data_in_place(common, sidecar);
  if (!data) return flight::fail(std::errc::permission_denied, "the file cannot be read in its place");
  const auto kallsyms = fetch_kallsyms(common, sidecar.id, sidecar.boot_id, KernelSymbols::if_there);
  ProfileOrder order;
  order.compared = sidecar.compared.value_or(SidecarCompared());
  if (kallsyms) order.kallsyms = {reinterpret_cast<const char*>(kallsyms->data()), kallsyms->size()};
  order.most_expanded_bytes = kMostChangedBytes;
  order.deadline = std::chrono::steady_clock::now() + kMostChangedTime;
  return SnapshotProfile::read(*data, order);
}

}  // namespace

std::string changed_text(const Sidecar& sidecar, const SnapshotProfile& profile, const Screen& screen) {
  const SidecarCompared compared = sidecar.compared.value_or(SidecarCompared());
  const Stretch now{.begin_ns = compared.now_begin_ns, .end_ns = compared.now_end_ns};
  const Stretch before{.begin_ns = compared.before_begin_ns, .end_ns = compared.now_begin_ns};
  const ProfileEvent& event = profile.events[main_event(profile)];
  const StacksColumns columns = columns_of(event, profile.tree.totals()[event.root], {}, now, &before);
  const TreeView view = view_of(
      profile.tree, event.root,
      {.by = StackOrder::difference, .scales = columns.scales, .without_noise = true, .most_rows = kChangedRows});
  const auto value = [&](double number) {
    return columns.in_cpus ? fmt::format("{:.2f}", number) : fmt::format("{:.1f}%", number * 100);
  };
  std::string out;
  for (const ChangedPath& path : changed_paths(view, columns.scales)) {
    std::vector<std::string> names;
    for (const std::uint32_t frame : path.frames) names.push_back(profile.text_of(frame));
    const std::string values = fmt::format("{:>8} {} {:>6}  ", value(columns.before(path.total)),
                                           screen.utf8() ? "→" : ">", value(columns.now(path.total)));
    const std::size_t left = screen.width() > width(values) ? screen.width() - width(values) : 1;
    out += values + chain_text(names, left, screen) + "\n";
  }
  return out;
}

ChangedPart changed_part(const Common& common, const Sidecar& sidecar, const Screen& screen) {
  if (!is_comparable(sidecar) || sidecar.samples == 0) return {};
  const auto profile = read_changed(common, sidecar);
  const std::string all = command_of_all(common, sidecar);
  if (!profile) {
    const std::string why =
        fmt::format("What changed most is not read here: {}. {} shows it.", profile.error().what, all);
    return {.text = "\n" + screen.wrapped(why, 0), .has_paths = false};
  }
  const std::string paths = changed_text(sidecar, *profile, screen);
  if (paths.empty())
    return {.text = "\n" + screen.wrapped("No path of calls has changed by more than noise.", 0), .has_paths = false};
  const std::string_view unit = profile->events[main_event(*profile)].is_clock ? "CPUs" : "shares";
  const std::string title = fmt::format("changed most, in {}, before and now ({} has all):", unit, all);
  return {.text = "\n" + screen.wrapped(title, 0) + paths, .has_paths = true};
}

}  // namespace flight::ctl
