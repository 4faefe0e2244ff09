// SPDX-License-Identifier: Apache-2.0
// flightctl snapshot: takes a snapshot, waits until it is durable, and prints a summary.
#include "ctl/daemon_call.hpp"
#include "ctl/fetch.hpp"
#include "ctl/option_names.hpp"
#include "ctl/output.hpp"
#include "ctl/screen.hpp"
#include "ctl/sidecar_text.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

// Converts the options to the method's parameters. An error is a usage error.
class Typed {
 public:
  Result<std::optional<std::uint64_t>> microseconds(std::string_view option, const std::string& text) {
    if (text.empty()) return std::nullopt;
    const auto duration = parse_span(text);
    if (!duration) return wrap(duration.error(), "{}", option);
    return static_cast<std::uint64_t>(duration->count()) / 1000;
  }
  Result<std::optional<std::string>> moment(std::string_view option, const std::string& text) {
    if (text.empty()) return std::nullopt;
    const auto time = parse_time(text, now_);
    if (!time) return wrap(time.error(), "{}", option);
    if (parse_ago(text)) return text;  // only flightd knows how long ago that is if the clock was set meanwhile
    return to_rfc3339(*time);
  }

 private:
  WallTime now_ = wall_now();  // the same "now" for --since and --until
};

Result<SnapshotParameters> parameters_of(const SnapshotOptions& options) {
  Typed typed;
  SnapshotParameters parameters;
  parameters.reason = options.reason;
  auto last = typed.microseconds("--last", options.last);
  if (!last) return propagate(last.error());
  auto post = typed.microseconds("--post", options.post);
  if (!post) return propagate(post.error());
  auto since = typed.moment("--since", options.since);
  if (!since) return propagate(since.error());
  auto until = typed.moment("--until", options.until);
  if (!until) return propagate(until.error());
  parameters.last_usec = *last;
  parameters.post_usec = *post;
  parameters.since = *since;
  parameters.until = *until;
  if (!options.capture.empty()) parameters.capture = options.capture;
  // Applies the daemon's own rules, so that a usage error needs no connection.
  if (auto checked = parse_snapshot_parameters(to_json(parameters)); !checked)
    return fail(std::errc::invalid_argument, "{}", with_option_names(checked.error()));
  return parameters;
}

Answer<std::string> take(const Common& common, const SnapshotParameters& parameters) {
  const ProgressLine line(!common.json);
  return ask(common, "TakeSnapshot", to_json(parameters), "snapshot", [&](const SnapshotProgress& progress) {
    line.show(fmt::format("{} {}%", printable(progress.step), progress.percent));
  });
}

// On a terminal it fits on the screen.
std::string shown_summary(const Common& common, const Sidecar& sidecar) {
  const Screen screen = Screen::here();
  const auto most = page_lines();
  std::string whole = summary_text(sidecar, screen, common.host);
  return most && count_rows(whole, screen.width()) > *most ? summary_brief(sidecar, screen, common.host, *most) : whole;
}

int report(const Common& common, const SnapshotOptions& options, const std::string& text) {
  const auto sidecar = parse_sidecar(text);
  if (!sidecar) return complain(common, kBadReply, sidecar.error().what, kRefused);
  if (!options.output.path.empty()) {
    // The snapshot stays, even if the copy fails.
    if (auto copied = fetch(common, sidecar->id, options.output); !copied)
      return complain(common, kOutputFailed,
                      fmt::format("snapshot {} was taken and is at {}, but was not copied to {}: {}", sidecar->id,
                                  sidecar->path, options.output.path, copied.error().message),
                      kRefused);
  }
  return print(options.output.path == "-" ? stderr : stdout,
               common.json ? indented(text) : shown_summary(common, *sidecar));
}

}  // namespace

int run_snapshot(const Common& common, const SnapshotOptions& options) {
  const auto parameters = parameters_of(options);
  if (!parameters) return complain(common, kUsageError, parameters.error().what, kUsage);
  if (const std::string why = check_target(options.output); !why.empty())
    return complain(common, kUsageError, why, kUsage);
  // Report obstacles before the snapshot is taken. Later failures are reported with it.
  if (const auto place = check_place(options.output); !place && place.error().code == std::errc::file_exists)
    return complain(common, kOutputFailed, place.error().what, kRefused);
  const auto text = take(common, *parameters);
  if (!text) return complain(common, text.error());
  return report(common, options, *text);
}

}  // namespace flight::ctl
