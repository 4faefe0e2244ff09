// SPDX-License-Identifier: Apache-2.0
// flightctl info [ID...]: shows the sidecar of one snapshot, or of several, one after the other. An error on one of
// them does not stop the others.
#include <optional>

#include "ctl/daemon_call.hpp"
#include "ctl/info_text.hpp"
#include "ctl/output.hpp"
#include "ctl/screen.hpp"

namespace flight::ctl {
namespace {

// As printed: JSON, or text for people, if possible of `most` lines.
Answer<std::string> described(const Common& common, const std::string& id, std::optional<std::size_t> most) {
  auto text = ask(common, "DescribeSnapshot", id_parameters(id), "snapshot");
  if (!text || common.json) return text;
  const auto sidecar = parse_sidecar(*text);
  if (!sidecar) return tl::unexpected(Refusal{std::string(kBadReply), sidecar.error().what});
  const Screen screen = Screen::here();
  std::string whole = info_text(*sidecar, screen);
  return most && count_lines(whole) > *most ? info_brief(*sidecar, screen, *most) : whole;
}

}  // namespace

int run_info(const Common& common, const std::vector<std::string>& ids, bool all) {
  const auto most = all ? std::nullopt : page_lines();
  std::string out;
  std::vector<Refusal> refusals;
  for (const std::string& id : ids.empty() ? std::vector<std::string>{"latest"} : ids) {
    auto text = described(common, id, most);
    if (text) {
      out += (out.empty() ? "" : common.json ? "," : "\n") + *text;
      continue;
    }
    refusals.push_back(std::move(text.error()));
    if (refusals.back().name == kNotConnected) break;  // the next call would fail, too
  }
  const bool several = ids.size() > 1;  // one snapshot is an object, several are an array
  int code = kDone;
  if (!out.empty()) code = print(stdout, !common.json ? out : indented(several ? "[" + out + "]" : out));
  if (refusals.empty()) return code;
  return complain(common, refusals);
}

}  // namespace flight::ctl
