// SPDX-License-Identifier: Apache-2.0
#include "daemon/options.hpp"
#include "libcore/base/nearest_word.hpp"
#include "libcore/base/version.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

namespace flight::daemon {
namespace {

// An empty value of an unset shell variable must not select the default directories.
std::string refuse_empty(const std::string& text) { return text.empty() ? "must not be empty" : ""; }

std::string folder(const std::string& given, const char* variable, const char* otherwise) {
  std::string out = given;
  if (const char* value = std::getenv(variable); out.empty() && value != nullptr) out = value;
  if (out.empty()) out = otherwise;
  // systemd may list several, separated by colons: use the first.
  if (given.empty()) out = out.substr(0, out.find(':'));
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(out, ignored).lexically_normal();
  out = ignored ? out : absolute.string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

ParsedOptions wrong(const std::string& why) {
  return {.options = std::nullopt, .exit_status = 2, .usage = with_help(why, "flightd")};
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  Options out;
  CLI::App app("flightd keeps the recent past of this machine in perf rings and writes it to a file on request.",
               "flightd");
  app.add_option("--config", out.config_file, "read only this file, instead of /etc/flightd and /usr/lib/flightd")
      ->type_name("FILE")
      ->check(refuse_empty);
  app.add_flag("--check-config", out.check_config, "check the configuration, print errors, and exit");
  app.add_flag(
      "--for-service", out.for_service,
      "with --check-config: also refuse files that the service cannot see, and directories that it may not write to");
  app.add_option("--state-dir", out.state_dir, "directory of the snapshots [$STATE_DIRECTORY, /var/lib/flightd]")
      ->type_name("DIR")
      ->check(refuse_empty);
  app.add_option("--runtime-dir", out.runtime_dir, "directory of the control socket [$RUNTIME_DIRECTORY, /run/flightd]")
      ->type_name("DIR")
      ->check(refuse_empty);
  app.add_option("--broker", out.broker_socket, "use the flightd-broker that listens on SOCKET; without it, start one")
      ->type_name("SOCKET")
      ->check(refuse_empty);
  app.set_version_flag("--version", "flightd " + std::string(kVersion));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
    return wrong(unknown_words(app.remaining(), known, {}));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return {.options = std::nullopt, .exit_status = app.exit(error), .usage = {}};
    return wrong(usage_text(error.what()));
  }
  if (out.for_service && !out.check_config) return wrong("--for-service needs --check-config");
  out.state_dir = folder(out.state_dir, "STATE_DIRECTORY", "/var/lib/flightd");
  out.runtime_dir = folder(out.runtime_dir, "RUNTIME_DIRECTORY", "/run/flightd");
  return {.options = std::move(out), .exit_status = 0, .usage = {}};
}

}  // namespace flight::daemon
