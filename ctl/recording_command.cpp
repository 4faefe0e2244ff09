// SPDX-License-Identifier: Apache-2.0
// flightctl pause, flightctl resume: switch all recording off and on.
#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"

namespace flight::ctl {

int run_recording(const Common& common, bool recording) {
  const auto done = ask(common, "SetRecording", fmt::format(R"({{"recording":{}}})", recording), "");
  if (!done) return complain(common, done.error());
  if (common.json) return print(stdout, indented(fmt::format(R"({{"recording":{}}})", recording)));
  return print(stdout, recording ? "recording\n"
                                 : "paused: nothing is recorded until `flightctl resume` or a restart of flightd\n");
}

}  // namespace flight::ctl
