// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/options.hpp"
#include "libcore/base/version.hpp"

#include <grp.h>
#include <pwd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>

namespace flight {
namespace {

constexpr int kUsageError = 2;

const char* state_dir_from_environment() {
  const char* folder = std::getenv("STATE_DIRECTORY");
  return folder != nullptr && *folder == '/' ? folder : nullptr;
}

// Of the whole word; nullopt: it is a name. The last number is none: to chown(2) it means "as it is".
std::optional<std::uint32_t> to_number(const std::string& word) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number == UINT32_MAX) return std::nullopt;
  return number;
}

uid_t find_user(const std::string& word) {
  if (const auto number = to_number(word)) return *number;
  if (const passwd* user = ::getpwnam(word.c_str())) return user->pw_uid;
  throw CLI::ValidationError("--client-uid", "there is no user " + word);
}

gid_t find_group(const std::string& word) {
  if (const auto number = to_number(word)) return *number;
  if (const ::group* found = ::getgrnam(word.c_str())) return found->gr_gid;
  throw CLI::ValidationError("--group", "there is no group " + word);
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  BrokerOptions options;
  options.client_uid = ::geteuid();
  if (const char* folder = state_dir_from_environment()) options.state_dir = folder;
  std::string client;
  std::string group;

  CLI::App app(
      "Opens flightd's perf events and holds them: the half of the recorder that has privileges, and takes no input "
      "but one-byte requests. flightd starts it by itself; it is of no use alone.",
      "flightd-broker");
  app.set_version_flag("--version", std::string("flightd-broker ") + std::string(kVersion));
  auto* fd =
      app.add_option("--fd", options.fd, "serve the one client on this inherited SOCK_SEQPACKET socket, then end")
          ->check(CLI::Range(0, 1 << 20));
  auto* socket = app.add_option("--socket", options.socket,
                                "listen on this path, one client after the other, unless systemd hands a socket down");
  app.add_option("--runtime-dir", options.runtime_dir, "the socket's folder (made if need be: 0700, the client's)")
      ->needs(socket);
  app.add_option("--client-uid", client, "the user, or its number, that may connect (default: who starts this)")
      ->excludes(fd);
  app.add_option("--config", options.config, "this configuration alone (default: /etc/flightd over /usr/lib/flightd)");
  app.add_option("--state-dir", options.state_dir, "files are made in its folder 'snapshots'")->capture_default_str();
  app.add_option("--group", group, "the group, or its number, that may read these files");
  fd->excludes(socket);
  try {
    app.parse(argc, argv);
    if (fd->count() + socket->count() == 0 && ::sd_listen_fds(0) <= 0)
      throw CLI::RequiredError("--fd N, --socket PATH or a socket of systemd's");
    if (!client.empty()) options.client_uid = find_user(client);
    if (!group.empty()) options.group = find_group(group);
  } catch (const CLI::ParseError& error) {
    return {.options = std::nullopt, .exit_status = app.exit(error) == 0 ? 0 : kUsageError};
  }
  if (options.runtime_dir.empty() && !options.socket.empty())
    options.runtime_dir = std::filesystem::absolute(options.socket).parent_path();
  return {.options = std::move(options), .exit_status = 0};
}

}  // namespace flight
