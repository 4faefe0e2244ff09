// SPDX-License-Identifier: Apache-2.0
// flightctl snapshot: takes one, waits until it is durable, says what is in it.
#include <unistd.h>

#include "ctl/daemon_call.hpp"
#include "ctl/fetch.hpp"
#include "ctl/output.hpp"
#include "ctl/sidecar_text.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

// What was typed as the method's parameters; the error is a usage error.
class Typed {
 public:
  Result<std::optional<std::uint64_t>> microseconds(std::string_view option, const std::string& text) {
    if (text.empty()) return std::nullopt;
    const auto duration = parse_duration(text);
    if (!duration) return wrap(duration.error(), "{}", option);
    return static_cast<std::uint64_t>(duration->count()) / 1000;
  }
  Result<std::optional<std::string>> moment(std::string_view option, const std::string& text) {
    if (text.empty()) return std::nullopt;
    const auto time = parse_time(text, now_);
    if (!time) return wrap(time.error(), "{}", option);
    return to_rfc3339(*time);
  }

 private:
  WallTime now_ = wall_now();  // one "now" for --since and --until
};

Result<SnapshotParameters> parameters_of(const SnapshotOptions& options) {
  Typed typed;
  SnapshotParameters parameters;
  parameters.reason = options.reason;
  auto last = typed.microseconds("--last", options.last);
  if (!last) return pass(last.error());
  auto post = typed.microseconds("--post", options.post);
  if (!post) return pass(post.error());
  auto since = typed.moment("--since", options.since);
  if (!since) return pass(since.error());
  auto until = typed.moment("--until", options.until);
  if (!until) return pass(until.error());
  parameters.last_usec = *last;
  parameters.post_usec = *post;
  parameters.since = *since;
  parameters.until = *until;
  if (!options.capture.empty()) parameters.capture = options.capture;
  // The daemon's own rules: what it would refuse is refused here, before it is asked.
  if (auto checked = parse_snapshot_parameters(to_json(parameters)); !checked)
    return fail(std::errc::invalid_argument, "{}",
                error_message({checked.error().parameters, checked.error().name, false}));
  return parameters;
}

// One line on stderr that is written over and goes away at the end; nothing where stderr is no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted) : shown_(wanted && ::isatty(STDERR_FILENO) == 1) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { show("\r\x1b[K"); }

  void step(const SnapshotProgress& progress) {
    show(fmt::format("\r{} {}%\x1b[K", printable(progress.step), progress.percent));
  }

 private:
  void show(const std::string& text) {
    if (!shown_) return;
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  }
  bool shown_;
};

Answer<std::string> take(const Common& common, const SnapshotParameters& parameters) {
  ProgressLine line(!common.json);
  return ask(common, "TakeSnapshot", to_json(parameters), "snapshot",
             [&](const SnapshotProgress& progress) { line.step(progress); });
}

int report(const Common& common, const SnapshotOptions& options, const std::string& text) {
  const auto sidecar = parse_sidecar(text);
  if (!sidecar) return complain(common, kBadReply, sidecar.error().what, kRefused);
  if (!options.output.path.empty()) {
    // The snapshot is taken and stays, whatever becomes of the copy.
    if (auto copied = fetch(common, sidecar->id, options.output); !copied)
      return complain(common, kOutputFailed,
                      fmt::format("snapshot {} is taken and stays at {}, but it was not copied to {}: {}", sidecar->id,
                                  sidecar->path, options.output.path, copied.error().message),
                      kRefused);
  }
  return print(options.output.path == "-" ? stderr : stdout, common.json ? indented(text) : summary_text(*sidecar));
}

}  // namespace

int run_snapshot(const Common& common, const SnapshotOptions& options) {
  const auto parameters = parameters_of(options);
  if (!parameters) return complain(common, kUsageError, parameters.error().what, kUsage);
  if (const std::string why = check_target(options.output); !why.empty())
    return complain(common, kUsageError, why, kUsage);
  // What stands in the way is told before a snapshot is taken; what fails later is told with it.
  if (const auto place = check_place(options.output); !place && place.error().code == std::errc::file_exists)
    return complain(common, kOutputFailed, place.error().what, kRefused);
  const auto text = take(common, *parameters);
  if (!text) return complain(common, text.error());
  return report(common, options, *text);
}

}  // namespace flight::ctl
