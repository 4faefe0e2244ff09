// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/calls.hpp"

#include <array>
#include <utility>

#include "libcore/base/version.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/control/record_messages.hpp"

namespace flight::daemon {
namespace {

constexpr std::string_view kService = "org.varlink.service";

struct Request {
  const Call& call;
  const Caller& caller;
  ControlBackend& backend;
  AnswerSink sink;
  bool trusted = false;  // the caller may call all methods

  void refuse(CallError error) const { sink.reply(error_reply(std::move(error))); }
  void reply(std::string parameters) const { sink.reply({std::move(parameters), "", false}); }
};
using ReplySink = std::function<void(Reply)>;

// The backend's result as the last reply; `wrap_text` adds the envelope.
ControlBackend::Done last_reply(ReplySink sink, std::string (*wrap_text)(std::string_view)) {
  return [sink = std::move(sink), wrap_text](CallResult<std::string> text) {
    if (!text) return sink(error_reply(std::move(text.error())));
    sink({wrap_text(*text), "", false});
  };
}

// A sidecar is read from the disk: a damaged one must not break the connection.
std::string checked_snapshot(std::string_view object) {
  return is_json_object(object) ? snapshot_reply(object) : std::string();
}

ControlBackend::Done snapshot_done(ReplySink sink) {
  return [sink = std::move(sink)](CallResult<std::string> text) {
    if (!text) return sink(error_reply(std::move(text.error())));
    std::string parameters = checked_snapshot(*text);
    if (parameters.empty())
      return sink(error_reply(write_failed(EBADMSG, "", "the snapshot's sidecar is damaged: it is not a JSON object")));
    sink({std::move(parameters), "", false});
  };
}

std::string empty_reply(std::string_view /*text*/) { return "{}"; }

void get_info(const Request& request) {
  if (auto none = parse_no_parameters(request.call.parameters); !none) return request.refuse(none.error());
  request.reply(info_reply(kVersion));
}

void get_interface_description(const Request& request) {
  auto interface = parse_interface_parameter(request.call.parameters);
  if (!interface) return request.refuse(interface.error());
  if (*interface == kInterface) return request.reply(description_reply(recorder_idl()));
  if (*interface == kService) return request.reply(description_reply(service_idl()));
  request.refuse(interface_not_found(*interface));
}

void get_status(const Request& request) {
  if (auto none = parse_no_parameters(request.call.parameters); !none) return request.refuse(none.error());
  request.backend.get_status(last_reply(request.sink.reply, &status_reply));
}

void take_snapshot(const Request& request) {
  auto parameters = parse_snapshot_parameters(request.call.parameters);
  if (!parameters) return request.refuse(parameters.error());
  ControlBackend::Progress progress = [](std::string_view, unsigned) {};
  if (request.call.more)
    progress = [sink = request.sink.reply](std::string_view step, unsigned percent) {
      sink({progress_reply(step, percent), "", true});
    };
  request.backend.take_snapshot(request.caller, std::move(*parameters), std::move(progress),
                                snapshot_done(request.sink.reply));
}

void record(const Request& request) {
  auto parameters = parse_record_parameters(request.call.parameters);
  if (!parameters) return request.refuse(parameters.error());
  if (!request.call.more && !parameters->for_ns)
    return request.refuse(
        invalid_parameter("for_ns", "without `more`, 'for_ns' must be given: nothing else would end the recording"));
  ControlBackend::Follower follower;
  if (request.call.more) {
    request.sink.be_patient();
    follower.client = request.sink.listen.client;
    follower.step = [sink = request.sink.reply](const std::string& id, const std::optional<RecordProgress>& progress) {
      sink({record_reply(id, progress), "", true});
    };
  }
  request.backend.record(request.caller, std::move(*parameters), std::move(follower),
                         last_reply(request.sink.reply, &recording_reply));
}

void stop_recording(const Request& request) {
  auto id = parse_id_parameter(request.call.parameters);
  if (!id) return request.refuse(id.error());
  request.backend.stop_recording(std::move(*id), last_reply(request.sink.reply, &recording_reply));
}

void list_snapshots(const Request& request) {
  if (auto none = parse_no_parameters(request.call.parameters); !none) return request.refuse(none.error());
  request.backend.list_snapshots(last_reply(request.sink.reply, &snapshots_reply));
}

void describe_snapshot(const Request& request) {
  auto id = parse_id_parameter(request.call.parameters);
  if (!id) return request.refuse(id.error());
  request.backend.describe_snapshot(std::move(*id), snapshot_done(request.sink.reply));
}

void remove_snapshot(const Request& request) {
  auto id = parse_id_parameter(request.call.parameters);
  if (!id) return request.refuse(id.error());
  request.backend.remove_snapshot(std::move(*id), last_reply(request.sink.reply, &empty_reply));
}

void pin_snapshot(const Request& request) {
  auto parameters = parse_pin_parameters(request.call.parameters);
  if (!parameters) return request.refuse(parameters.error());
  request.backend.pin_snapshot(std::move(parameters->id), parameters->pinned,
                               last_reply(request.sink.reply, &empty_reply));
}

void read_snapshot(const Request& request) {
  auto parameters = parse_read_parameters(request.call.parameters);
  if (!parameters) return request.refuse(parameters.error());
  request.backend.read_snapshot(std::move(parameters->id), parameters->file,
                                [sink = request.sink](CallResult<OpenSnapshot> opened) {
                                  if (!opened) return sink.reply(error_reply(std::move(opened.error())));
                                  Reply reply{read_reply({opened->size_bytes, opened->name}), "", false};
                                  sink.upgrade(std::move(reply), std::move(*opened));
                                });
}

void vacuum(const Request& request) {
  const auto dry_run = parse_vacuum_parameter(request.call.parameters);
  if (!dry_run) return request.refuse(dry_run.error());
  ControlBackend::Progress progress = [](std::string_view, unsigned) {};
  if (request.call.more)
    progress = [sink = request.sink.reply](std::string_view step, unsigned percent) {
      sink({vacuum_progress_reply(step, percent), "", true});
    };
  request.backend.vacuum(*dry_run, std::move(progress),
                         last_reply(request.sink.reply, [](std::string_view text) { return std::string(text); }));
}

void set_recording(const Request& request) {
  const auto recording = parse_recording_parameter(request.call.parameters);
  if (!recording) return request.refuse(recording.error());
  request.backend.set_recording(request.caller, *recording, last_reply(request.sink.reply, &empty_reply));
}

void list_triggers(const Request& request) {
  if (auto none = parse_no_parameters(request.call.parameters); !none) return request.refuse(none.error());
  request.backend.list_triggers(last_reply(request.sink.reply, &triggers_reply));
}

void fire_trigger(const Request& request) {
  auto parameters = parse_fire_parameters(request.call.parameters);
  if (!parameters) return request.refuse(parameters.error());
  if (parameters->test && !request.trusted)
    return request.refuse(
        permission_denied(fmt::format("uid {} may fire external triggers, but not test triggers", request.caller.uid)));
  request.backend.fire_trigger(request.caller, std::move(*parameters), last_reply(request.sink.reply, &fired_reply));
}

void set_trigger(const Request& request) {
  auto parameters = parse_set_trigger_parameters(request.call.parameters);
  if (!parameters) return request.refuse(parameters.error());
  request.backend.set_trigger(request.caller, std::move(*parameters), last_reply(request.sink.reply, &empty_reply));
}

std::string whole_reply(std::string_view text) { return std::string(text); }

void reload(const Request& request) {
  if (auto none = parse_no_parameters(request.call.parameters); !none) return request.refuse(none.error());
  request.backend.reload(request.caller, last_reply(request.sink.reply, &whole_reply));
}

void get_config(const Request& request) {
  if (auto none = parse_no_parameters(request.call.parameters); !none) return request.refuse(none.error());
  request.backend.get_config(last_reply(request.sink.reply, &whole_reply));
}

void monitor(const Request& request) {
  if (auto none = parse_no_parameters(request.call.parameters); !none) return request.refuse(none.error());
  request.backend.monitor(request.sink.listen);
}

// How a method replies, and the flag that its call needs.
enum class Answers { once, by_upgrade, again_and_again };

// The users that may call a method: all, those that may fire triggers, or those that ControlAccess trusts.
enum class Access { everybody, trigger, trusted };

struct Method {
  std::string_view interface, name;
  Access access;
  void (*call)(const Request&);
  CallSpan span = CallSpan::brief;
  Answers answers = Answers::once;
};
constexpr auto kMethods = std::to_array<Method>({
    {kService, "GetInfo", Access::everybody, &get_info},
    {kService, "GetInterfaceDescription", Access::everybody, &get_interface_description},
    {kInterface, "GetStatus", Access::trusted, &get_status},
    {kInterface, "TakeSnapshot", Access::trusted, &take_snapshot, CallSpan::snapshot},
    {kInterface, "Record", Access::trusted, &record, CallSpan::slow},
    {kInterface, "StopRecording", Access::trusted, &stop_recording, CallSpan::slow},
    {kInterface, "ListSnapshots", Access::trusted, &list_snapshots, CallSpan::slow},
    {kInterface, "DescribeSnapshot", Access::trusted, &describe_snapshot, CallSpan::slow},
    {kInterface, "ReadSnapshot", Access::trusted, &read_snapshot, CallSpan::slow, Answers::by_upgrade},
    {kInterface, "RemoveSnapshot", Access::trusted, &remove_snapshot, CallSpan::slow},
    {kInterface, "PinSnapshot", Access::trusted, &pin_snapshot, CallSpan::slow},
    {kInterface, "Vacuum", Access::trusted, &vacuum, CallSpan::slow},
    {kInterface, "ListTriggers", Access::trusted, &list_triggers},
    {kInterface, "FireTrigger", Access::trigger, &fire_trigger},
    {kInterface, "SetTrigger", Access::trusted, &set_trigger},
    {kInterface, "SetRecording", Access::trusted, &set_recording},
    {kInterface, "Reload", Access::trusted, &reload},
    {kInterface, "GetConfig", Access::trusted, &get_config},
    {kInterface, "Monitor", Access::trusted, &monitor, CallSpan::endless, Answers::again_and_again},
});

const Method* find_method(std::string_view interface, std::string_view name) {
  for (const Method& method : kMethods)
    if (method.interface == interface && method.name == name) return &method;
  return nullptr;
}

CallResult<void> check_flags(const Call& call, Answers answers) {
  const auto refuse = [](std::string_view flag, const std::string& why) {
    return tl::unexpected(invalid_parameter(flag, why));
  };
  if (call.upgrade && answers != Answers::by_upgrade)
    return refuse("upgrade", fmt::format("{} cannot upgrade the connection", call.method));
  if (!call.upgrade && answers == Answers::by_upgrade)
    return refuse("upgrade", fmt::format("{} sends a file's bytes after its reply: call it with `upgrade`, as "
                                         "`flightctl get` does",
                                         call.method));
  if (call.oneway && answers != Answers::once)
    return refuse("oneway", fmt::format("{} needs a reply and cannot be oneway", call.method));
  if (!call.more && answers == Answers::again_and_again) return tl::unexpected(expected_more(call.method));
  return {};
}

// The end of a refusal: it names the users that may call the method, and the remedy if flightd does not know a group.
std::string who_may(Access wanted, const ControlAccess& access) {
  std::string out = "be root or a member of flightd's group";
  std::string unknown = access.group ? "" : "flightd";
  if (wanted == Access::trigger) {
    out += ", or of flightd-trigger";
    if (!access.trigger_group) unknown += unknown.empty() ? "flightd-trigger" : " and no group flightd-trigger";
  }
  if (!unknown.empty())
    out += fmt::format(
        "; flightd knows no group {}: if there is none, create it (systemd-sysusers flightd.conf, or groupadd "
        "--system), and restart flightd",
        unknown);
  return out;
}

}  // namespace

Reply error_reply(CallError error) { return {std::move(error.parameters), std::move(error.name), false}; }

void answer(const Call& call, const Caller& caller, const ControlAccess& access, ControlBackend& backend,
            AnswerSink sink) {
  const bool trusted = access.trusts(caller);
  const Request request{call, caller, backend, std::move(sink), trusted};
  const std::size_t dot = call.method.rfind('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == call.method.size())
    return request.refuse(
        invalid_parameter("method", fmt::format("'{}' is not a method; its form is INTERFACE.METHOD", call.method)));
  const std::string_view interface = std::string_view(call.method).substr(0, dot);
  if (interface != kService && interface != kInterface) return request.refuse(interface_not_found(interface));
  const Method* method = find_method(interface, std::string_view(call.method).substr(dot + 1));
  if (method == nullptr) return request.refuse(method_not_found(call.method));
  const bool may =
      trusted || method->access == Access::everybody || (method->access == Access::trigger && access.may_fire(caller));
  if (!may)
    return request.refuse(permission_denied(
        fmt::format("uid {} may not call {}: {}", caller.uid, call.method, who_may(method->access, access))));
  if (auto fits = check_flags(call, method->answers); !fits) return request.refuse(std::move(fits.error()));
  const std::string too_many = method->span == CallSpan::brief ? "" : request.sink.admit(method->span);
  if (!too_many.empty()) return request.refuse(permission_denied(too_many));
  method->call(request);
}

}  // namespace flight::daemon
