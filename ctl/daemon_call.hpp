// SPDX-License-Identifier: Apache-2.0
// One call to flightd. A refusal is returned as the error that flightd sent.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ctl/commands.hpp"
#include "libcore/control/messages.hpp"

namespace flight::ctl {

// Why the call failed, ready for complain().
struct Refusal {
  std::string name;     // "io.flightd.Recorder.NoSuchSnapshot"
  std::string message;  // for people
};
template <typename T>
using Answer = tl::expected<T, Refusal>;

using OnProgress = std::function<void(const SnapshotProgress&)>;

// Calls io.flightd.Recorder.METHOD. Returns the JSON text of the reply's member `key`; "{}" if `key` is empty.
[[nodiscard]] Answer<std::string> ask(const Common& common, std::string_view method, std::string parameters,
                                      std::string_view key, const OnProgress& on_progress = {});
// Returns all parameters of the reply, for methods that return more than one.
[[nodiscard]] Answer<std::string> ask_whole(const Common& common, std::string_view method, std::string parameters,
                                            const OnProgress& on_progress = {});
[[nodiscard]] int complain(const Common& common, const Refusal& refusal);
// Each on a line of its own; with --json one line with the name of the first. There must be one.
[[nodiscard]] int complain(const Common& common, const std::vector<Refusal>& refusals);
// {"id": "7"}
[[nodiscard]] std::string id_parameters(std::string_view id);

}  // namespace flight::ctl
