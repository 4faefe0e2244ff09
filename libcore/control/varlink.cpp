// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/varlink.hpp"

#include "libcore/base/text.hpp"
#include "libcore/json/parse.hpp"

namespace flight {
namespace {

Failure bad_message(std::string_view why) { return fail(std::errc::bad_message, "broken Varlink message: {}", why); }

// A duplicate key is refused at any depth: JSON parsers disagree about which one counts, and the parser that checks a
// call must not read another value than the parser that executes it.
Result<json::Value> parse_object(std::string_view message) {
  auto value = json::parse(message, {.unique_keys = true});
  if (!value) return bad_message(value.error().what);
  if (!value->is_object()) return bad_message("it is not a JSON object");
  return value;
}

// A member that is null counts as missing, as always in Varlink.
Result<void> read_flag(const json::Value& object, const char* key, bool& out) {
  const json::Value& value = object.at(key);
  if (value.is_null()) return {};
  if (!value.flag()) return bad_message(fmt::format("'{}' must be true or false", key));
  out = *value.flag();
  return {};
}

Result<void> read_text(const json::Value& object, const char* key, std::string& out) {
  const json::Value& value = object.at(key);
  if (value.is_null()) return {};
  if (value.text() == nullptr) return bad_message(fmt::format("'{}' must be a string", key));
  out = *value.text();
  return {};
}

Result<std::string> read_parameters(const json::Value& object) {
  const json::Value& value = object.at("parameters");
  if (value.is_null()) return std::string("{}");
  if (!value.is_object()) return bad_message("'parameters' must be an object");
  return json::dump(value);
}

// `parameters` is JSON text already and is inserted unchanged: a list of 10,000 rows is not parsed again.
std::string message_with(std::string head, std::string_view parameters, std::string_view flags) {
  constexpr std::string_view kKey = R"("parameters":)";
  head.reserve(head.size() + kKey.size() + parameters.size() + flags.size() + 4);  // the parameters are copied once
  head += kKey;
  head += parameters.empty() ? std::string_view("{}") : parameters;
  head += flags;
  head += '}';
  head += '\0';
  return head;
}

CallError service_error(std::string_view name, const json::Object& parameters) {
  return {fmt::format("org.varlink.service.{}", name), json::dump(parameters)};
}

}  // namespace

CallError recorder_error(std::string_view name, const json::Object& parameters) {
  return {fmt::format("{}.{}", kInterface, name), json::dump(parameters)};
}

Result<Call> parse_call(std::string_view message) {
  const auto object = parse_object(message);
  if (!object) return propagate(object.error());
  Call call;
  if (object->at("method").is_null()) return bad_message("it has no 'method'");
  if (auto read = read_text(*object, "method", call.method); !read) return propagate(read.error());
  auto parameters = read_parameters(*object);
  if (!parameters) return propagate(parameters.error());
  call.parameters = std::move(*parameters);
  for (const auto& [key, flag] :
       {std::pair<const char*, bool*>{"more", &call.more}, {"oneway", &call.oneway}, {"upgrade", &call.upgrade}})
    if (auto read = read_flag(*object, key, *flag); !read) return propagate(read.error());
  return call;
}

Result<Reply> parse_reply(std::string_view message) {
  const auto object = parse_object(message);
  if (!object) return propagate(object.error());
  Reply reply;
  if (auto read = read_text(*object, "error", reply.error); !read) return propagate(read.error());
  if (!object->at("error").is_null() && reply.error.empty()) return bad_message("its 'error' is empty");
  auto parameters = read_parameters(*object);
  if (!parameters) return propagate(parameters.error());
  reply.parameters = std::move(*parameters);
  if (auto read = read_flag(*object, "continues", reply.continues); !read) return propagate(read.error());
  return reply;
}

std::string encode(const Call& call) {
  std::string flags;
  if (call.more) flags += R"(,"more":true)";
  if (call.oneway) flags += R"(,"oneway":true)";
  if (call.upgrade) flags += R"(,"upgrade":true)";
  return message_with(R"({"method":)" + json::dump_text(call.method) + ',', call.parameters, flags);
}

std::string encode(const Reply& reply) {
  std::string head = "{";
  if (!reply.error.empty()) head += R"("error":)" + json::dump_text(reply.error) + ',';
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
                       {{"message", fmt::format("{} sends several replies: call it with `more`", method)}});
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
  return recorder_error("Stopping", {{"message", "flightd is stopping and takes no new snapshots"}});
}

CallError bad_config(std::string_view file, int line, std::string_view path, std::string_view message) {
  return recorder_error("BadConfig", {{"file", file}, {"line", line}, {"path", path}, {"message", message}});
}

std::string error_message(const Reply& reply) {
  std::string message = json::parse_or_null(reply.parameters).at("message").text_or_empty();
  return message.empty() ? reply.error : message;
}

std::string error_message(const CallError& error) {
  return error_message(Reply{.parameters = error.parameters, .error = error.name});
}

}  // namespace flight
