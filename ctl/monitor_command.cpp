// SPDX-License-Identifier: Apache-2.0
// flightctl monitor: prints one line for each event, until it is interrupted or flightd ends.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "ctl/connection.hpp"
#include "ctl/output.hpp"
#include "libcore/control/events.hpp"

namespace flight::ctl {
namespace {

// For people: "snapshot finished".
std::string words_of_event(std::string_view event) {
  std::string out = printable(event);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

std::string line_of(const RecorderEvent& event) {
  std::string line = fmt::format("{}  {}", local_time(event.time), words_of_event(event.event));
  if (event.recording && !*event.recording) line += " (recording is paused)";
  if (!event.id.empty()) line += fmt::format("  {}", printable(event.id));
  for (const auto& [key, text] :
       {std::pair("trigger", &event.trigger), {"reason", &event.reason}, {"path", &event.path}})
    if (!text->empty()) line += fmt::format("  {}={}", key, printable(*text));
  if (!event.message.empty()) line += "  " + printable(event.message);
  return line + "\n";
}

}  // namespace

int run_monitor(const Common& common) {
  auto connection = Connection::open(common);
  if (!connection) return complain(common, kNotConnected, connection.error().what, kRefused);
  const auto reply = connection->call(
      {fmt::format("{}.Monitor", kInterface), "{}", true, false, false}, [&](const Reply& event_reply) {
        const auto event = parse_event(event_reply.parameters);
        if (!event) return;
        const int code = print(stdout, common.json ? to_json(*event) + "\n" : line_of(*event));
        if (code != kDone) std::exit(code);  // stdout is closed, and the next event may come hours later
      });
  if (!reply) return complain(common, kNotConnected, reply.error().what, kRefused);
  if (!reply->error.empty()) return complain(common, reply->error, error_message(*reply), kRefused);
  return kDone;
}

}  // namespace flight::ctl
