// SPDX-License-Identifier: Apache-2.0
// One call to the daemon, and what it says when it says no.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ctl/commands.hpp"
#include "libcore/control/messages.hpp"

namespace flight::ctl {

// Why there is no answer, ready for complain().
struct Refusal {
  std::string name;     // "io.flightd.Recorder.NoSuchSnapshot"
  std::string message;  // for people
};
template <typename T>
using Answer = tl::expected<T, Refusal>;

using OnProgress = std::function<void(const SnapshotProgress&)>;

// Calls io.flightd.Recorder.METHOD. The JSON text of the reply's member `key`; "{}" where `key` is empty.
[[nodiscard]] Answer<std::string> ask(const Common& common, std::string_view method, std::string parameters,
                                      std::string_view key, const OnProgress& on_progress = {});
// The whole reply's parameters, of a method that answers with more than one.
[[nodiscard]] Answer<std::string> ask_whole(const Common& common, std::string_view method, std::string parameters,
                                            const OnProgress& on_progress = {});
[[nodiscard]] int complain(const Common& common, const Refusal& refusal);
// {"id": "7"}
[[nodiscard]] std::string id_parameters(std::string_view id);

}  // namespace flight::ctl
