// SPDX-License-Identifier: Apache-2.0
#include "daemon/options.hpp"
#include "libcore/base/version.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

namespace flight {
namespace {

// An unset shell variable must not end up as the machine's own folders.
std::string refuse_empty(const std::string& text) { return text.empty() ? "must not be empty" : ""; }

std::string folder(const std::string& given, const char* variable, const char* otherwise) {
  std::string out = given;
  if (const char* value = std::getenv(variable); out.empty() && value != nullptr) out = value;
  if (out.empty()) out = otherwise;
  // systemd may list several, separated by colons: the first is ours.
  if (given.empty()) out = out.substr(0, out.find(':'));
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(out, ignored).lexically_normal();
  out = ignored ? out : absolute.string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  Options out;
  CLI::App app("flightd keeps the recent past of this machine in perf rings and writes it down when asked.", "flightd");
  app.add_option("--config", out.config_file, "read this file alone, in place of /etc/flightd and /usr/lib/flightd")
      ->type_name("FILE")
      ->check(refuse_empty);
  app.add_flag("--check-config", out.check_config, "check the configuration, say what is wrong with it, and end");
  app.add_option("--state-dir", out.state_dir, "where snapshots are kept [$STATE_DIRECTORY, /var/lib/flightd]")
      ->type_name("DIR")
      ->check(refuse_empty);
  app.add_option("--runtime-dir", out.runtime_dir, "where the control socket is [$RUNTIME_DIRECTORY, /run/flightd]")
      ->type_name("DIR")
      ->check(refuse_empty);
  app.add_option("--broker", out.broker_socket, "use the flightd-broker that listens there; otherwise start one")
      ->type_name("SOCKET")
      ->check(refuse_empty);
  app.set_version_flag("--version", "flightd " + std::string(kVersion));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int kUsageError = 2;
    return {.options = std::nullopt, .exit_status = app.exit(error) == 0 ? 0 : kUsageError};
  }
  out.state_dir = folder(out.state_dir, "STATE_DIRECTORY", "/var/lib/flightd");
  out.runtime_dir = folder(out.runtime_dir, "RUNTIME_DIRECTORY", "/run/flightd");
  return {.options = std::move(out), .exit_status = 0};
}

}  // namespace flight
