// SPDX-License-Identifier: Apache-2.0
// flightctl remove|pin|unpin ID...: an error on one snapshot does not stop the others. The id of a recording stands for
// all of its parts.
#include <algorithm>

#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"
#include "ctl/recordings.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {
namespace {

struct Deed {
  std::string_view method, done;
  std::string (*parameters)(std::string_view id);
};

// Resolves "latest" once: the output must name the snapshot, and another one may be the latest a moment later.
Answer<std::string> number_of(const Common& common, const std::string& id) {
  if (id != "latest") return id;
  const auto text = ask(common, "DescribeSnapshot", id_parameters(id), "snapshot");
  if (!text) return tl::unexpected(text.error());
  const auto sidecar = parse_sidecar(*text);
  if (!sidecar) return tl::unexpected(Refusal{std::string(kBadReply), sidecar.error().what});
  return sidecar->id;
}

// Replaces the id of each recording by the ids of its parts.
Answer<std::vector<std::string>> with_parts(const Common& common, const std::vector<std::string>& ids) {
  const auto rows = all_rows(common);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<std::string> out;
  for (const std::string& id : ids)
    for (const RecordedPart& part : parts_of(*rows, id))
      if (std::find(out.begin(), out.end(), part.id) == out.end()) out.push_back(part.id);
  return out;
}

int run_each(const Common& common, const std::vector<std::string>& typed, const Deed& deed) {
  const auto ids = with_parts(common, typed);
  if (!ids) return complain(common, ids.error());
  std::vector<std::string> done;
  std::vector<Refusal> refusals;
  for (const std::string& id : *ids) {
    auto number = number_of(common, id);
    auto answer = number ? ask(common, deed.method, deed.parameters(*number), "") : number;
    if (answer) {
      done.push_back(std::move(*number));
      continue;
    }
    refusals.push_back(std::move(answer.error()));
    if (refusals.back().name == kNotConnected) break;  // the next call would fail, too
  }
  if (common.json) {
    if (refusals.empty()) return print(stdout, indented(to_json(done)));
    return complain(common, refusals);
  }
  int code = refusals.empty() ? kDone : complain(common, refusals);
  for (const std::string& id : done)
    if (print(stdout, fmt::format("{} {}\n", deed.done, id)) != kDone) code = kRefused;
  return code;
}

}  // namespace

int run_remove(const Common& common, const std::vector<std::string>& ids) {
  return run_each(common, ids, {"RemoveSnapshot", "removed", &id_parameters});
}

int run_pin(const Common& common, const std::vector<std::string>& ids, bool pinned) {
  if (pinned)
    return run_each(common, ids, {"PinSnapshot", "pinned", [](std::string_view id) {
                                    return fmt::format(R"({{"id":"{}","pinned":true}})", id);
                                  }});
  return run_each(common, ids, {"PinSnapshot", "unpinned", [](std::string_view id) {
                                  return fmt::format(R"({{"id":"{}","pinned":false}})", id);
                                }});
}

}  // namespace flight::ctl
