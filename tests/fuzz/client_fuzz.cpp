// SPDX-License-Identifier: Apache-2.0
// What flightctl reads of whoever answers on the socket: replies, a status, rows, progress.
#include <cassert>

#include "libcore/control/messages.hpp"
#include "libcore/control/record_messages.hpp"
#include "libcore/store/catalogue.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = flight::fuzz::Input(data, size).text();
  if (const auto reply = flight::parse_reply(text)) {
    static_cast<void>(flight::error_message(*reply));
    static_cast<void>(flight::parse_progress(reply->parameters));
    if (const auto step = flight::parse_record_step(reply->parameters))
      assert(flight::parse_record_step(flight::record_reply(step->id, step->progress)).has_value());
    for (const char* key : {"snapshot", "snapshots", "status"})
      static_cast<void>(flight::member(reply->parameters, key));
    std::string again = flight::encode(*reply);
    again.pop_back();
    assert(flight::parse_reply(again).has_value());
  }
  if (const auto call = flight::parse_call(text)) {
    static_cast<void>(flight::parse_snapshot_parameters(call->parameters));
    static_cast<void>(flight::parse_record_parameters(call->parameters));
    static_cast<void>(flight::parse_id_parameter(call->parameters));
    static_cast<void>(flight::parse_read_parameters(call->parameters));
    static_cast<void>(flight::parse_vacuum_parameter(call->parameters));
    static_cast<void>(flight::parse_interface_parameter(call->parameters));
    static_cast<void>(flight::parse_no_parameters(call->parameters));
  }
  if (const auto status = flight::parse_status(text))
    assert(flight::parse_status(flight::to_json(*status)).has_value());
  if (const auto result = flight::parse_record_result(text))
    assert(flight::parse_record_result(flight::to_json(*result)).has_value());
  if (const auto rows = flight::parse_rows(text)) assert(flight::parse_rows(flight::to_json(*rows)).has_value());
  static_cast<void>(flight::indented(text));
  return 0;
}
