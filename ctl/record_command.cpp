// SPDX-License-Identifier: Apache-2.0
// flightctl record: records until Ctrl-C or for some time, and copies the parts as they end; record --stop ends one.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "ctl/connection.hpp"
#include "ctl/daemon_call.hpp"
#include "ctl/fetch.hpp"
#include "ctl/option_names.hpp"
#include "ctl/output.hpp"
#include "ctl/recordings.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/base/units.hpp"
#include "libcore/control/record_messages.hpp"

namespace flight::ctl {
namespace {

Result<std::optional<std::uint64_t>> span_of(std::string_view option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto span = parse_span(text);
  if (!span) return wrap(span.error(), "{}", option);
  return static_cast<std::uint64_t>(span->count());
}

Result<std::optional<std::uint64_t>> size_of_option(std::string_view option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto size = parse_bytes(text);
  if (!size) return wrap(size.error(), "{}", option);
  return *size;
}

Result<RecordParameters> record_parameters(const RecordOptions& options) {
  RecordParameters out;
  const auto past = span_of("--past", options.past);
  if (!past) return propagate(past.error());
  const auto duration = span_of("--for", options.duration);
  if (!duration) return propagate(duration.error());
  const auto most = size_of_option("--max-size", options.max_size);
  if (!most) return propagate(most.error());
  const auto part = size_of_option("--switch-size", options.switch_size);
  if (!part) return propagate(part.error());
  out.past_ns = past->value_or(0);
  out.for_ns = *duration;
  out.max_bytes = *most;
  out.part_bytes = *part;
  out.channels = options.channels;
  if (!options.layout.empty()) out.layout = options.layout;
  out.reason = options.reason;
  // Applies the daemon's own rules, so that a usage error needs no connection.
  if (auto checked = parse_record_parameters(to_json(out)); !checked)
    return flight::fail(std::errc::invalid_argument, "{}", with_option_names(checked.error()));
  return out;
}

// The id of the recording, for the thread that waits for signals.
class RecordedId {
 public:
  void set(const std::string& id) {
    const std::lock_guard lock(mutex_);
    id_ = id;
  }
  [[nodiscard]] std::string get() const {
    const std::lock_guard lock(mutex_);
    return id_;
  }

 private:
  mutable std::mutex mutex_;
  std::string id_;
};

// The first signal ends the recording in order, and its result is still printed; the second one ends flightctl. A
// signal that is ignored, as by nohup(1), stays so. Without this, the end of the connection ends the recording.
void stop_on_signals(const Common& common, const std::shared_ptr<const RecordedId>& id) {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) ::sigaddset(&wanted, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  auto thread = start_thread("signals", [common, id, wanted] {
    constexpr int kBySignal = 128;
    int number = 0;
    if (::sigwait(&wanted, &number) != 0) return;
    const std::string known = id->get();
    if (known.empty()) std::_Exit(kBySignal + number);
    // Before the request, which may wait for the disk: the next signal ends flightctl, by its default action.
    ::pthread_sigmask(SIG_UNBLOCK, &wanted, nullptr);
    static_cast<void>(ask(common, "StopRecording", id_parameters(known), "recording"));
    for (;;) ::pause();  // no other thread takes it
  });
  if (thread)
    thread->detach();
  else
    ::pthread_sigmask(SIG_UNBLOCK, &wanted, nullptr);
}

// Copies each part when it is whole.
class PartCopies {
 public:
  PartCopies(const Common& common, OutputFile output) : common_(common), output_(std::move(output)) {}

  void follow(const std::vector<std::string>& finished) {
    if (output_.path.empty()) return;
    for (; next_ < finished.size() && !refusal_; ++next_) {
      const std::uint64_t number = number_of_part(common_, finished[next_]);
      const OutputFile target{.path = part_path(output_.path, number != 0 ? number : next_ + 1),
                              .force = output_.force};
      auto copied = fetch(common_, finished[next_], target);
      if (!copied)
        refusal_ = Refusal{copied.error().name, fmt::format("part {} was recorded, but not copied to {}: {}",
                                                            finished[next_], target.path, copied.error().message)};
    }
  }
  [[nodiscard]] const std::optional<Refusal>& refusal() const { return refusal_; }

 private:
  const Common& common_;
  OutputFile output_;
  std::size_t next_ = 0;
  std::optional<Refusal> refusal_;
};

std::string step_text(const RecordStep& step) {
  const RecordProgress now = step.progress.value_or(RecordProgress{});
  return fmt::format("recording {} (Ctrl-C ends it): {:.0f} s, {} in {}, {}, {} lost", printable(step.id), now.seconds,
                     format_bytes(now.bytes), counted(now.parts, "part"), counted(now.events, "event"), now.lost);
}

Answer<RecordResult> result_of(const Result<Reply>& reply) {
  if (!reply) return tl::unexpected(Refusal{std::string(kNotConnected), reply.error().what});
  if (!reply->error.empty()) return tl::unexpected(Refusal{reply->error, error_message(*reply)});
  auto result = parse_record_result(member(reply->parameters, "recording"));
  if (!result) return tl::unexpected(Refusal{std::string(kBadReply), result.error().what});
  return std::move(*result);
}

std::string result_text(const RecordResult& result) {
  const RecordProgress& all = result.progress;
  std::vector<std::pair<std::string, std::string>> lines{{"id", result.id},
                                                         {"ended", result.ended},
                                                         {"seconds", fmt::format("{:.1f}", all.seconds)},
                                                         {"events", std::to_string(all.events)},
                                                         {"lost", std::to_string(all.lost)},
                                                         {"size", format_bytes(all.bytes)}};
  for (const std::string& path : result.paths) lines.emplace_back("path", path);
  std::string out = key_values(lines);
  if (!result.warnings.empty()) out += "\nwarnings:\n";
  for (const std::string& warning : result.warnings) out += Screen::here().wrapped(warning, 2);
  return out;
}

int report_result(const Common& common, const RecordResult& result) {
  const int printed = print(stdout, common.json ? indented(to_json(result)) : result_text(result));
  if (printed != kDone || result.ended == "asked" || result.ended == "max_size") return printed;
  return complain(common, kEndedEarly,
                  fmt::format("recording {} ended early ({}); what it has recorded is in the store", result.id,
                              printable(result.ended)),
                  kRefused);
}

int stop_recording(const Common& common, const std::string& id) {
  const auto text = ask(common, "StopRecording", id_parameters(id), "recording");
  if (!text) return complain(common, text.error());
  const auto result = parse_record_result(*text);
  if (!result) return complain(common, kBadReply, result.error().what, kRefused);
  return report_result(common, *result);
}

Answer<RecordResult> record(const Common& common, const RecordParameters& parameters, PartCopies& copies) {
  const auto id = std::make_shared<RecordedId>();
  stop_on_signals(common, id);
  auto connection = Connection::open(common);
  if (!connection) return tl::unexpected(Refusal{std::string(kNotConnected), connection.error().what});
  const ProgressLine line(!common.json);
  const Call call{fmt::format("{}.Record", kInterface), to_json(parameters), true, false, false};
  return result_of(connection->call(call, [&](const Reply& reply) {
    const auto step = parse_record_step(reply.parameters);
    if (!step) return;
    id->set(step->id);
    line.show(step_text(*step));
    if (step->progress) copies.follow(step->progress->finished);
  }));
}

}  // namespace

int run_record(const Common& common, const RecordOptions& options) {
  if (!options.stop.empty()) return stop_recording(common, options.stop);
  const auto parameters = record_parameters(options);
  if (!parameters) return complain(common, kUsageError, parameters.error().what, kUsage);
  if (options.output.path == "-")
    return complain(common, kUsageError, "-o - is not possible: a recording can have several parts; name a file",
                    kUsage);
  if (const auto place = check_place(options.output); !place)
    return complain(common, kOutputFailed, place.error().what, kRefused);
  PartCopies copies(common, options.output);
  const auto result = record(common, *parameters, copies);
  if (!result) return complain(common, result.error());
  copies.follow(result->progress.finished);
  const int code = report_result(common, *result);
  if (copies.refusal()) return complain(common, *copies.refusal());
  return code;
}

}  // namespace flight::ctl
