// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/options.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

namespace flight {
namespace {

constexpr int kUsageError = 2;

const char* state_dir_from_environment() {
  const char* folder = std::getenv("STATE_DIRECTORY");
  return folder != nullptr && *folder == '/' ? folder : nullptr;
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  BrokerOptions options;
  options.client_uid = ::geteuid();
  if (const char* folder = state_dir_from_environment()) options.state_dir = folder;
  std::uint32_t group = 0;

  CLI::App app(
      "Opens flightd's perf events and holds them: the half of the recorder that has privileges, and takes no input "
      "but one-byte requests. flightd starts it by itself; it is of no use alone.",
      "flightd-broker");
  app.set_version_flag("--version", std::string("flightd-broker ") + FLIGHTD_VERSION);
  auto* fd =
      app.add_option("--fd", options.fd, "serve the one client on this inherited SOCK_SEQPACKET socket, then end")
          ->check(CLI::Range(0, 1 << 20));
  auto* socket = app.add_option("--socket", options.socket, "listen on this path, one client after the other");
  app.add_option("--runtime-dir", options.runtime_dir, "the socket's folder (made if need be: 0700, the client's)")
      ->needs(socket);
  app.add_option("--client-uid", options.client_uid, "who may connect to --socket (default: who starts this)")
      ->needs(socket);
  app.add_option("--config", options.config, "this configuration alone (default: /etc/flightd over /usr/lib/flightd)");
  app.add_option("--state-dir", options.state_dir, "files are made in its folder 'snapshots'")->capture_default_str();
  auto* given_group = app.add_option("--group", group, "the numeric group that may read these files");
  fd->excludes(socket);
  try {
    app.parse(argc, argv);
    if (fd->count() + socket->count() == 0) throw CLI::RequiredError("--fd N or --socket PATH");
  } catch (const CLI::ParseError& error) {
    return {.options = std::nullopt, .exit_status = app.exit(error) == 0 ? 0 : kUsageError};
  }
  if (given_group->count() != 0) options.group = group;
  if (options.runtime_dir.empty() && !options.socket.empty())
    options.runtime_dir = std::filesystem::absolute(options.socket).parent_path();
  return {.options = std::move(options), .exit_status = 0};
}

}  // namespace flight
