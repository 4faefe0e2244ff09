// SPDX-License-Identifier: Apache-2.0
// Varlink's messages (https://varlink.org): one JSON object, terminated by a NUL. Parameters are kept as JSON texts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"

namespace flight {

namespace json {
class Object;
}

// The limit of a call; a reply of flightd may be larger (a list of 10,000 snapshots).
inline constexpr std::size_t kMaxCallBytes = 64U << 10U;
inline constexpr std::size_t kMaxReplyBytes = 64U << 20U;

inline constexpr std::string_view kInterface = "io.flightd.Recorder";

struct Call {
  std::string method;      // "io.flightd.Recorder.GetStatus"
  std::string parameters;  // a JSON object's text; "{}" if it is missing
  bool more = false, oneway = false, upgrade = false;
};
struct Reply {
  std::string parameters;  // a JSON object's text
  std::string error;       // fully qualified name; empty: no error
  bool continues = false;
};

// `message` is without the NUL. EBADMSG: not JSON, wrong types, no method, a duplicate key, deeper than
// json::kMaxDepth, or not UTF-8.
[[nodiscard]] Result<Call> parse_call(std::string_view message);
[[nodiscard]] Result<Reply> parse_reply(std::string_view message);
// Includes the NUL.
[[nodiscard]] std::string encode(const Call& call);
[[nodiscard]] std::string encode(const Reply& reply);

// A named error with members; every error of flightd has a `message` for people.
struct CallError {
  std::string name;        // "io.flightd.Recorder.NoSuchSnapshot"
  std::string parameters;  // {"id": "7", "message": "…"}
};
// An error of io.flightd.Recorder, with these members.
[[nodiscard]] CallError recorder_error(std::string_view name, const json::Object& members);
[[nodiscard]] CallError invalid_parameter(std::string_view parameter, std::string_view message);
[[nodiscard]] CallError method_not_found(std::string_view method);
[[nodiscard]] CallError method_not_implemented(std::string_view method);
[[nodiscard]] CallError interface_not_found(std::string_view interface);
[[nodiscard]] CallError permission_denied(std::string_view message);
[[nodiscard]] CallError expected_more(std::string_view method);
[[nodiscard]] CallError no_such_snapshot(std::string_view id);
[[nodiscard]] CallError no_such_snapshot(std::string_view id, std::string_view message);
[[nodiscard]] CallError write_failed(int error_number, std::string_view kept, std::string_view message);
[[nodiscard]] CallError store_full(std::string_view message);
[[nodiscard]] CallError stopping();
[[nodiscard]] CallError bad_config(std::string_view file, int line, std::string_view path, std::string_view message);
// The "message" of an error's parameters; the error's name if there is none.
[[nodiscard]] std::string error_message(const Reply& reply);
[[nodiscard]] std::string error_message(const CallError& error);

// The interface's IDL, the text of io.flightd.Recorder.varlink, and org.varlink.service's.
[[nodiscard]] std::string_view recorder_idl();
[[nodiscard]] std::string_view service_idl();

}  // namespace flight
