// SPDX-License-Identifier: Apache-2.0
// flightctl info [ID...]: shows the sidecar of one snapshot, or of several, one after the other. An error on one of
// them does not stop the others.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>
#include <vector>

#include "ctl/daemon_call.hpp"
#include "ctl/info_changed.hpp"
#include "ctl/info_text.hpp"
#include "ctl/output.hpp"
#include "ctl/screen.hpp"

namespace flight::ctl {
namespace {

// The descriptions of the given snapshots, and the refusals for those that have none.
struct Described {
  std::vector<std::string> texts;  // as JSON
  std::vector<Sidecar> sidecars;   // for a page
  std::vector<Refusal> refusals;
};

Described describe_all(const Common& common, const std::vector<std::string>& ids) {
  Described out;
  for (const std::string& id : ids) {
    auto text = ask(common, "DescribeSnapshot", id_parameters(id), "snapshot");
    auto sidecar = text && !common.json ? parse_sidecar(*text) : Result<Sidecar>(Sidecar());
    if (!text)
      out.refusals.push_back(std::move(text.error()));
    else if (!sidecar)
      out.refusals.push_back({std::string(kBadReply), sidecar.error().what});
    else if (common.json)
      out.texts.push_back(std::move(*text));
    else
      out.sidecars.push_back(std::move(*sidecar));
    if (!out.refusals.empty() && out.refusals.back().name == kNotConnected) break;  // the next call would fail, too
  }
  return out;
}

// Whole, or shortened for a terminal.
std::string info_page(const Common& common, const std::vector<Sidecar>& sidecars, bool all) {
  const Screen screen = Screen::here();
  const auto most = all ? std::nullopt : page_lines();
  // Of several, reading the files would take too long.
  const ChangedPart changed = sidecars.size() == 1 ? changed_part(common, sidecars.front(), screen) : ChangedPart();
  std::string whole;
  for (const Sidecar& sidecar : sidecars)
    whole += (whole.empty() ? "" : "\n") + info_text(sidecar, screen, changed.text);
  if (!most || count_lines(whole) <= *most) return whole;
  return sidecars.size() == 1 ? info_brief(sidecars.front(), screen, *most, changed.has_paths ? changed.text : "")
                              : info_briefs(sidecars, screen, *most);
}

}  // namespace

int run_info(const Common& common, const std::vector<std::string>& ids, bool all) {
  const Described found = describe_all(common, ids.empty() ? std::vector<std::string>{"latest"} : ids);
  std::string out;
  if (common.json) {
    const std::string objects = fmt::format("{}", fmt::join(found.texts, ","));
    if (!found.texts.empty()) out = indented(ids.size() > 1 ? "[" + objects + "]" : objects);  // several are an array
  } else if (!found.sidecars.empty()) {
    out = info_page(common, found.sidecars, all);
  }
  const int code = out.empty() ? kDone : print(stdout, out);
  return found.refusals.empty() ? code : complain(common, found.refusals);
}

}  // namespace flight::ctl
