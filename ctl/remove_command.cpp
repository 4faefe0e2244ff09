// SPDX-License-Identifier: Apache-2.0
// flightctl remove ID...: deletes snapshots. One that cannot be removed does not keep the others.
#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"

namespace flight::ctl {

int run_remove(const Common& common, const std::vector<std::string>& ids) {
  std::vector<std::string> removed;
  std::vector<Refusal> refusals;
  for (const std::string& id : ids) {
    if (auto done = ask(common, "RemoveSnapshot", id_parameters(id), ""); !done) {
      refusals.push_back(std::move(done.error()));
      if (refusals.back().name == kNotConnected) break;  // nor will the next one be heard
    } else {
      removed.push_back(id);
    }
  }
  if (common.json) {
    if (refusals.empty()) return print(stdout, indented(to_json(removed)));
    std::string message;  // one line for all of them
    for (const Refusal& refusal : refusals) message += (message.empty() ? "" : "; ") + refusal.message;
    return complain(common, refusals.front().name, message, kRefused);
  }
  for (const Refusal& refusal : refusals) static_cast<void>(complain(common, refusal));
  int code = refusals.empty() ? kDone : kRefused;
  for (const std::string& id : removed)
    if (print(stdout, fmt::format("removed {}\n", id)) != kDone) code = kRefused;
  return code;
}

}  // namespace flight::ctl
