// SPDX-License-Identifier: Apache-2.0
// One attempt to start flightd. The order follows the privileges: configuration, directories, broker, rings and staging
// come first, then the drop of privileges, then threads. An attempt that fails leaves nothing behind, so that a service
// can make the next one (start_wait.hpp). Main thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/folders.hpp"
#include "daemon/lifecycle.hpp"
#include "daemon/options.hpp"
#include "daemon/start/broker_process.hpp"
#include "daemon/start/configured.hpp"
#include "libcore/base/folder_answers.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/config/config_reader.hpp"

namespace flight::daemon {

struct Start {
  const Options& options;
  std::shared_ptr<ConfigReader> config;      // of all attempts, and then of the reloads
  std::shared_ptr<FolderLook> runtime_look;  // of all attempts
  std::shared_ptr<FolderLook> broker_look;   // the same, of the directory of the broker's socket
  std::vector<std::string> command_line;
  bool service = false;  // a broker that cannot be reached is no failure: flightd looks for it
  // The socket that the service manager passed; duplicated for each attempt. Invalid: flightd makes its own.
  const Result<UniqueFd>& control_socket;
};
// In the order of creation: the daemon ends first.
struct Started {
  RuntimeFolder runtime;
  std::optional<BrokerProcess> broker_process;
  std::unique_ptr<Daemon> daemon;
  std::string config_digest;
};
[[nodiscard]] tl::expected<Started, StartFailure> try_start(const Start& start,
                                                            std::unique_ptr<SpareDescriptors> spare);

}  // namespace flight::daemon
