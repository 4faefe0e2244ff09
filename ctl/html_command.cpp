// SPDX-License-Identifier: Apache-2.0
// flightctl html [ID] [--against ID2] [-o FILE|-] [--force] [--open]: a page that shows a snapshot in a browser, or
// what has changed from another one.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "ctl/exported_file.hpp"
#include "ctl/fetch.hpp"
#include "ctl/output.hpp"
#include "ctl/profiled.hpp"
#include "ctl/sched_text.hpp"
#include "libcore/base/inherited_state.hpp"
#include "libcore/base/units.hpp"
#include "libcore/export/page.hpp"
#include "libcore/export/page_sched.hpp"
#include "libcore/json/value.hpp"
#include "libcore/profile/folded.hpp"

namespace flight::ctl {
namespace {

// A snapshot of the page, without its file.
struct HtmlSide {
  Sidecar sidecar;
  SnapshotProfile profile;
  std::size_t event = 0;
  PageSamples samples;
  std::optional<PageSched> sched;
  std::vector<std::string> notes;

  [[nodiscard]] PageSide page() const {
    return {.profile = profile,
            .event = event,
            .samples = samples,
            .sidecar = sidecar,
            .notes = notes,
            .sched = sched ? &*sched : nullptr};
  }
};

std::vector<std::string> notes_of_page(const Profiled& snapshot, const SnapshotProfile& profile,
                                       const PageSamples& samples) {
  std::vector<std::string> out;
  if (profile.counts.counted == 0) out.emplace_back("the snapshot has no samples");
  for (std::string& warning : profile.warnings()) out.push_back(std::move(warning));
  if (!snapshot.no_kallsyms.empty()) out.push_back("kernel symbols: " + snapshot.no_kallsyms);
  if (samples.left_out() > 0)
    out.push_back(
        fmt::format("{} left out: there are too many for a page, so values are too small; "
                    "`flightctl stacks` has all",
                    counted(samples.left_out(), "sample")));
  return out;
}

// `event`: the one to show, if it is there; empty: the main one. nullopt: it was complained about, with this exit code.
std::optional<HtmlSide> read_html_side(const Common& common, const std::string& id, const std::string& event,
                                       int& code) {
  auto snapshot = open_profiled(common, id);
  if (!snapshot) {
    code = complain(common, snapshot.error());
    return std::nullopt;
  }
  HtmlSide out;
  ProfileOrder order;
  order.kallsyms = snapshot->kallsyms;
  if (snapshot->sidecar.compared) order.compared = *snapshot->sidecar.compared;
  order.each = [&out](const CountedSample& sample) { out.samples.add(sample); };
  auto profile = SnapshotProfile::read(snapshot->data, order);
  if (!profile) {
    Error error = profile.error();
    error.what = fmt::format("snapshot {}: {}", printable(snapshot->sidecar.id), error.what);
    code = complain_of_profile(common, error);
    return std::nullopt;
  }
  out.samples.arrange();
  out.notes = notes_of_page(*snapshot, *profile, out.samples);
  auto sched = read_scheduling(*snapshot, kUsualLanes);
  if (!sched) {
    out.notes.push_back("scheduling: " + sched.error().what);
  } else if (*sched) {
    std::vector<std::string> not_known = sched_notes(snapshot->sidecar, **sched, true);
    out.sched = PageSched{.profile = std::move(**sched), .notes = std::move(not_known)};
  }
  out.event = main_event(*profile);
  for (std::size_t i = 0; i < profile->events.size(); ++i)
    if (profile->events[i].name == event) out.event = i;
  out.profile = std::move(*profile);
  out.sidecar = std::move(snapshot->sidecar);
  return out;
}

// Both have the same lines, so each says of which snapshot it is.
std::vector<std::string> all_notes(const std::vector<HtmlSide>& sides) {
  std::vector<std::string> out;
  for (const HtmlSide& side : sides)
    for (const std::string& note : side.notes)
      out.push_back(sides.size() > 1 ? fmt::format("snapshot {}: {}", printable(side.sidecar.id), note) : note);
  return out;
}

int print_page_result(const Common& common, const std::string& where, const std::vector<HtmlSide>& sides) {
  const std::vector<std::string> notes = all_notes(sides);
  if (!common.json) {
    for (const std::string& note : notes) static_cast<void>(print(stderr, fmt::format("flightctl: {}\n", note)));
    return where == "-" ? kDone : print(stdout, printable(where) + "\n");
  }
  if (where == "-") return kDone;
  const json::Object out{{"path", where},
                         {"samples", sides.front().samples.samples().size()},
                         {"scheduling", sides.front().sched.has_value()},
                         {"notes", notes}};
  return print(stdout, json::dump(out, 2) + "\n");
}

// xdg-open takes the place of flightctl. Returns only if it could not be started.
int open_page(const Common& common, const std::string& path) {
  std::string program = "xdg-open";
  std::string target = path.starts_with('/') ? path : "./" + path;  // not an option
  const std::array<char*, 3> words{program.data(), target.data(), nullptr};
  restore_for_exec();
  ::execvp(words[0], words.data());
  const Failure failure = sys_error(errno, "start xdg-open (of xdg-utils)");
  return complain(common, kOutputFailed,
                  fmt::format("{}: the page is written; open {} with a browser", failure.value().what, path), kRefused);
}

}  // namespace

int run_html(const Common& common, const HtmlOptions& options) {
  const auto failed = [&common](const Error& error) { return complain(common, kOutputFailed, error.what, kRefused); };
  if (const auto place = check_place(options.output); !place) return failed(place.error());
  int code = kDone;
  std::vector<HtmlSide> sides;
  std::optional<HtmlSide> now = read_html_side(common, options.id, "", code);
  if (!now) return code;
  const std::string event = now->profile.events.empty() ? "" : now->profile.events[now->event].name;
  sides.push_back(std::move(*now));
  if (!options.against.empty()) {
    std::optional<HtmlSide> before = read_html_side(common, options.against, event, code);
    if (!before) return code;
    if (before->sidecar.id == sides.front().sidecar.id)
      return complain(common, kUsageError, fmt::format("both are snapshot {}", printable(before->sidecar.id)), kUsage);
    sides.push_back(std::move(*before));
  }
  const auto where = place_of_export(sides.front().sidecar, options.output, ".html");
  if (!where) return failed(where.error());
  std::vector<PageSide> pages;
  for (const HtmlSide& side : sides) pages.push_back(side.page());
  const auto written = write_exported(*where, [&](const WriteBytes& write) { return write_page(pages, write); });
  if (!written) return failed(written.error());
  code = print_page_result(common, *where, sides);
  return code == kDone && options.open ? open_page(common, *where) : code;
}

}  // namespace flight::ctl
