// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/varlink.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "libcore/base/text.hpp"
#include "libcore/control/json_depth.hpp"

namespace flight {
namespace {

// Keeps the order of keys as it came: people read these texts.
using Json = nlohmann::ordered_json;

// Never throws: bytes that are no UTF-8 (a comm, a file name) become U+FFFD.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Failure bad_message(std::string_view why) { return fail(std::errc::bad_message, "broken Varlink message: {}", why); }

// Of a key that is given twice each JSON parser believes another one, and who checks a call must not see another one
// than who acts on it.
class KeysOnce {
 public:
  // For nlohmann's parser, which calls it for every key and every object's begin and end.
  bool operator()(Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) seen_.emplace_back();
    if (event == Json::parse_event_t::object_end) seen_.pop_back();
    if (event == Json::parse_event_t::key && !seen_.back().insert(parsed.get_ref<const std::string&>()).second)
      twice_ = true;
    return true;
  }
  [[nodiscard]] bool twice() const { return twice_; }

 private:
  std::vector<std::set<std::string>> seen_;  // of the objects that are open
  bool twice_ = false;
};

Result<Json> parse_object(std::string_view message) {
  if (nests_too_deep(message)) return bad_message(fmt::format("it nests deeper than {} levels", kMaxJsonDepth));
  KeysOnce keys;
  Json json = Json::parse(
      message, [&](int /*depth*/, Json::parse_event_t event, const Json& parsed) { return keys(event, parsed); },
      false);
  if (!json.is_discarded() && keys.twice()) return bad_message("it gives a key twice");
  if (json.is_discarded()) return bad_message("it is no JSON, or its text is no UTF-8");
  if (!json.is_object()) return bad_message("it is no JSON object");
  return json;
}

// A member that is null counts as left out, as everywhere in Varlink.
const Json* find(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

Result<void> read_flag(const Json& json, const char* key, bool& out) {
  const Json* value = find(json, key);
  if (value == nullptr) return {};
  if (!value->is_boolean()) return bad_message(fmt::format("'{}' must be true or false", key));
  out = value->get<bool>();
  return {};
}

Result<void> read_text(const Json& json, const char* key, std::string& out) {
  const Json* value = find(json, key);
  if (value == nullptr) return {};
  if (!value->is_string()) return bad_message(fmt::format("'{}' must be a string", key));
  out = value->get<std::string>();
  return {};
}

Result<std::string> read_parameters(const Json& json) {
  const Json* value = find(json, "parameters");
  if (value == nullptr) return std::string("{}");
  if (!value->is_object()) return bad_message("'parameters' must be an object");
  return dump(*value);
}

// `parameters` is JSON text already and goes in as it is: a list of 10,000 rows is not parsed once more.
std::string message_with(std::string head, std::string_view parameters, std::string_view flags) {
  head += R"("parameters":)";
  head += parameters.empty() ? std::string_view("{}") : parameters;
  head += flags;
  head += '}';
  head += '\0';
  return head;
}

CallError service_error(std::string_view name, const Json& parameters) {
  return {fmt::format("org.varlink.service.{}", name), dump(parameters)};
}

CallError recorder_error(std::string_view name, const Json& parameters) {
  return {fmt::format("{}.{}", kInterface, name), dump(parameters)};
}

}  // namespace

Result<Call> parse_call(std::string_view message) {
  auto json = parse_object(message);
  if (!json) return pass(json.error());
  Call call;
  if (find(*json, "method") == nullptr) return bad_message("it has no 'method'");
  if (auto read = read_text(*json, "method", call.method); !read) return pass(read.error());
  auto parameters = read_parameters(*json);
  if (!parameters) return pass(parameters.error());
  call.parameters = std::move(*parameters);
  for (const auto& [key, flag] :
       {std::pair<const char*, bool*>{"more", &call.more}, {"oneway", &call.oneway}, {"upgrade", &call.upgrade}})
    if (auto read = read_flag(*json, key, *flag); !read) return pass(read.error());
  return call;
}

Result<Reply> parse_reply(std::string_view message) {
  auto json = parse_object(message);
  if (!json) return pass(json.error());
  Reply reply;
  if (auto read = read_text(*json, "error", reply.error); !read) return pass(read.error());
  if (find(*json, "error") != nullptr && reply.error.empty()) return bad_message("its 'error' is empty");
  auto parameters = read_parameters(*json);
  if (!parameters) return pass(parameters.error());
  reply.parameters = std::move(*parameters);
  if (auto read = read_flag(*json, "continues", reply.continues); !read) return pass(read.error());
  return reply;
}

std::string encode(const Call& call) {
  std::string flags;
  if (call.more) flags += R"(,"more":true)";
  if (call.oneway) flags += R"(,"oneway":true)";
  if (call.upgrade) flags += R"(,"upgrade":true)";
  return message_with(R"({"method":)" + dump(Json(call.method)) + ',', call.parameters, flags);
}

std::string encode(const Reply& reply) {
  std::string head = "{";
  if (!reply.error.empty()) head += R"("error":)" + dump(Json(reply.error)) + ',';
  return message_with(std::move(head), reply.parameters, reply.continues ? R"(,"continues":true)" : "");
}

CallError invalid_parameter(std::string_view parameter, std::string_view message) {
  return service_error("InvalidParameter", {{"parameter", parameter}, {"message", message}});
}

CallError method_not_found(std::string_view method) {
  return service_error("MethodNotFound",
                       {{"method", method}, {"message", fmt::format("there is no method {}", printable(method))}});
}

CallError method_not_implemented(std::string_view method) {
  return service_error(
      "MethodNotImplemented",
      {{"method", method}, {"message", fmt::format("this flightd does not offer the method {}", printable(method))}});
}

CallError interface_not_found(std::string_view interface) {
  return service_error("InterfaceNotFound",
                       {{"interface", interface},
                        {"message", fmt::format("there is no interface '{}'; there are {} and org.varlink.service",
                                                printable(interface), kInterface)}});
}

CallError permission_denied(std::string_view message) {
  return service_error("PermissionDenied", {{"message", message}});
}

CallError expected_more(std::string_view method) {
  return service_error("ExpectedMore",
                       {{"message", fmt::format("{} answers again and again: call it with `more`", method)}});
}

CallError no_such_snapshot(std::string_view id) {
  return no_such_snapshot(id, id == "latest" ? std::string("there is no snapshot yet; `flightctl snapshot` takes one")
                                             : fmt::format("there is no snapshot {}; `flightctl list` shows all", id));
}

CallError no_such_snapshot(std::string_view id, std::string_view message) {
  return recorder_error("NoSuchSnapshot", {{"id", id}, {"message", message}});
}

CallError write_failed(int error_number, std::string_view kept, std::string_view message) {
  return recorder_error("WriteFailed", {{"errno", error_number}, {"kept", kept}, {"message", message}});
}

CallError store_full(std::string_view message) { return recorder_error("StoreFull", {{"message", message}}); }

CallError stopping() {
  return recorder_error("Stopping", {{"message", "flightd is ending and takes no new snapshots"}});
}

CallError bad_config(std::string_view file, int line, std::string_view path, std::string_view message) {
  return recorder_error("BadConfig", {{"file", file}, {"line", line}, {"path", path}, {"message", message}});
}

std::string error_message(const Reply& reply) {
  const Json json =
      nests_too_deep(reply.parameters) ? Json() : Json::parse(reply.parameters, nullptr, /*allow_exceptions=*/false);
  if (const Json* message = json.is_object() ? find(json, "message") : nullptr;
      message != nullptr && message->is_string() && !message->get_ref<const std::string&>().empty())
    return message->get<std::string>();
  return reply.error;
}

}  // namespace flight
