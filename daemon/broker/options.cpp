// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/options.hpp"
#include "libcore/base/accounts.hpp"
#include "libcore/base/nearest_word.hpp"
#include "libcore/base/version.hpp"

#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstring>
#include <filesystem>

namespace flight::broker {
namespace {

constexpr int kUsageError = 2;

const char* state_dir_from_environment() {
  const char* folder = std::getenv("STATE_DIRECTORY");
  return folder != nullptr && *folder == '/' ? folder : nullptr;
}

// Parses the whole word as a number; nullopt: it is a name. The largest number is invalid: chown(2) reads it as
// "unchanged".
std::optional<std::uint32_t> to_number(const std::string& word) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number == UINT32_MAX) return std::nullopt;
  return number;
}

std::string unknown(std::string_view kind, const std::string& word, std::string_view command) {
  return fmt::format("the {} {} does not exist: create it (systemd-sysusers flightd.conf, or {} {}), or give a number",
                     kind, word, command, word);
}

uid_t find_user(const std::string& word) {
  if (const auto number = to_number(word)) return *number;
  const auto found = user_named(word);
  if (!found) throw CLI::ValidationError("--client-uid", found.error().what);
  if (*found) return (*found)->uid;
  throw CLI::ValidationError("--client-uid", unknown("user", word, "useradd --system --user-group"));
}

gid_t find_group(const std::string& word) {
  if (const auto number = to_number(word)) return *number;
  const auto found = group_named(word);
  if (!found) throw CLI::ValidationError("--group", found.error().what);
  if (*found) return **found;
  throw CLI::ValidationError("--group", unknown("group", word, "groupadd --system"));
}

ParsedOptions wrong(const std::string& why) {
  return {.options = std::nullopt, .exit_status = kUsageError, .usage = with_help(why, "flightd-broker")};
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  BrokerOptions options;
  options.client_uid = ::geteuid();
  if (const char* folder = state_dir_from_environment()) options.state_dir = folder;
  // The kernel puts the arguments one behind the other.
  if (argc > 0) options.command_line = {argv[0], argv[argc - 1] + std::strlen(argv[argc - 1]) + 1};
  std::string client;
  std::string group;

  CLI::App app(
      "Opens and holds flightd's perf events: the part of the recorder that has privileges. It accepts "
      "only requests of one byte. flightd starts it automatically; it does nothing without flightd.",
      "flightd-broker");
  app.set_version_flag("--version", std::string("flightd-broker ") + std::string(kVersion));
  // option_text(): without it, CLI11 appends its own words for needs() and excludes().
  auto* fd = app.add_option("--fd", options.fd, "serve one client on this inherited SOCK_SEQPACKET socket, then exit")
                 ->type_name("N")
                 ->option_text("N")
                 ->check(CLI::Range(0, 1 << 20));
  app.add_option("--end-fd", options.end_fd, "die when the other end of this inherited pipe is closed")
      ->type_name("N")
      ->option_text("N")
      ->check(CLI::Range(0, 1 << 20))
      ->needs(fd);
  auto* socket =
      app.add_option("--socket", options.socket,
                     "listen on this path and serve one client at a time; ignored if systemd passes a socket")
          ->type_name("PATH")
          ->option_text("PATH");
  app.add_option("--runtime-dir", options.runtime_dir,
                 "directory of the socket (created if missing, mode 0700, owned by the client)")
      ->type_name("DIR")
      ->option_text("DIR")
      ->needs(socket);
  app.add_option("--client-uid", client,
                 "name or number of the user that may connect (default: the user that starts the broker)")
      ->type_name("USER")
      ->option_text("USER")
      ->excludes(fd);
  app.add_option("--config", options.config,
                 "read only this configuration (default: /etc/flightd over /usr/lib/flightd)")
      ->type_name("FILE");
  app.add_option("--state-dir", options.state_dir,
                 fmt::format("create files in its subdirectory 'snapshots' (default: {})", options.state_dir))
      ->type_name("DIR");
  app.add_option("--group", group, "name or number of the group that may read these files")->type_name("GROUP");
  fd->excludes(socket);
  try {
    app.parse(argc, argv);
    if (fd->count() + socket->count() == 0 && ::sd_listen_fds(0) <= 0)
      throw CLI::RequiredError("--fd N, --socket PATH or a socket passed by systemd");
    if (!client.empty()) options.client_uid = find_user(client);
    if (!group.empty()) options.group = find_group(group);
  } catch (const CLI::ExtrasError&) {
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
    return wrong(unknown_words(app.remaining(), known, {}));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return {.options = std::nullopt, .exit_status = app.exit(error), .usage = {}};
    return wrong(usage_text(error.what()));
  }
  std::error_code error;
  if (options.runtime_dir.empty() && !options.socket.empty())
    options.runtime_dir = std::filesystem::absolute(options.socket, error).parent_path();
  if (error)
    return wrong(fmt::format("--socket {}: the current directory is not known: {}", options.socket, error.message()));
  return {.options = std::move(options), .exit_status = 0, .usage = {}};
}

}  // namespace flight::broker
