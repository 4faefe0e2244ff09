// SPDX-License-Identifier: Apache-2.0
#include "ctl/host.hpp"

#include <algorithm>
#include <cstdlib>

#include "libcore/base/text.hpp"

namespace flight::ctl {
namespace {

constexpr int kNoSuchCommand = 127, kNoConnection = 255, kUsageThere = 2;  // sh(1), ssh(1), ours
constexpr std::size_t kMaxNameBytes = 255, kMaxOutputShown = 400;

bool letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// ssh passes names to the shell of a ProxyCommand: only characters without a meaning for the shell are allowed.
bool plain(std::string_view name, std::string_view more) {
  return !name.empty() && name.size() <= kMaxNameBytes && name[0] != '-' &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter_or_digit(c) || more.find(c) != std::string_view::npos; });
}

bool valid_port(std::string_view port) {
  return !port.empty() && port.size() <= 5 && port[0] != '0' &&
         std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         std::atoi(std::string(port).c_str()) <= 65535;
}

// Quotes for the shell on the other machine.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string last_words(std::string_view output) {
  std::string out;
  for (const char c : output)
    if (c == '\n' || c == '\r') {
      if (!out.empty() && !out.ends_with("; ")) out += "; ";
    } else {
      out += c;
    }
  if (out.ends_with("; ")) out.resize(out.size() - 2);
  if (out.size() > kMaxOutputShown) out = "..." + out.substr(out.size() - kMaxOutputShown);
  return printable(out);
}

Result<Host> parse_host(std::string_view text) {
  const auto refused = [text] {
    return fail(std::errc::invalid_argument, "'{}' is not [USER@]HOST[:PORT]", printable(text));
  };
  const std::size_t at = text.rfind('@');
  const std::string_view user = at == std::string_view::npos ? "" : text.substr(0, at);
  std::string_view name = at == std::string_view::npos ? text : text.substr(at + 1);
  if (at != std::string_view::npos && !plain(user, "._-+@")) return refused();
  std::string_view rest;  // ":PORT"
  if (name.starts_with('[')) {
    const std::size_t end = name.find(']');
    if (end == std::string_view::npos) return refused();
    rest = name.substr(end + 1);
    name = name.substr(1, end - 1);
    if (name.find(':') == std::string_view::npos) return refused();
  } else if (const std::size_t colon = name.find(':'); colon != std::string_view::npos && colon == name.rfind(':')) {
    rest = name.substr(colon);
    name = name.substr(0, colon);
  }
  if (!plain(name, "._-+:%")) return refused();
  if (!rest.empty() && (rest[0] != ':' || !valid_port(rest.substr(1)))) return refused();
  return Host{at == std::string_view::npos ? std::string(name) : fmt::format("{}@{}", user, name),
              std::string(rest.empty() ? rest : rest.substr(1))};
}

std::vector<std::string> ssh_words(const Host& host, const std::string& socket, std::string_view command) {
  const char* other = std::getenv("FLIGHTCTL_SSH");
  // Without X11 (-x) and terminal (-T): the bytes must pass unchanged. The user's ssh_config may have lines for an
  // interactive session, which would run another command, none, or read no input; older versions of ssh do not know all
  // of them.
  std::vector<std::string> words{other != nullptr && *other != '\0' ? other : "ssh", "-xT"};
  // The first value of an option counts: a list in IgnoreUnknown would end the user's own one. Forwardings are for his
  // sessions: one that cannot be made again would end this connection. With LogLevel QUIET, ssh would not
  // say why it cannot connect.
  for (const char* option :
       {"IgnoreUnknown=*", "RemoteCommand=none", "PermitLocalCommand=no", "StdinNull=no", "ForkAfterAuthentication=no",
        "SessionType=default", "ClearAllForwardings=yes", "LogLevel=INFO"})
    words.insert(words.end(), {"-o", option});
  if (!host.port.empty()) words.insert(words.end(), {"-p", host.port});
  words.insert(words.end(), {"--", host.destination});
  words.push_back(
      fmt::format("flightctl {}{}", socket.empty() ? "" : "--socket " + shell_quoted(socket) + " ", command));
  return words;
}

std::string ssh_failure(const Host& host, int status, std::string_view output) {
  const std::string words = last_words(output);
  const std::string because = words.empty() ? "" : ": " + words;
  constexpr std::string_view kOwn = "flightctl: ";  // the prefix of the other flightctl's messages
  if (status == kNoConnection) return fmt::format("ssh cannot connect to {}{}", host.destination, because);
  if (status == kNoSuchCommand)
    return fmt::format("no flightctl in the $PATH of ssh on {}; install flightd there{}", host.destination,
                       words.empty() ? "" : " (" + words + ")");
  if (status == kUsageThere)
    return fmt::format("the flightctl of {} does not know this command or option; is it older?{}", host.destination,
                       because);
  if (const std::size_t own = words.rfind(kOwn); own != std::string::npos)
    return fmt::format("{}: {}", host.destination, words.substr(own + kOwn.size()));
  // Cobra's messages: another program of this name.
  if (words.find("for \"flightctl\"") != std::string::npos || words.find("unknown flag: --socket") != std::string::npos)
    return fmt::format(
        "the flightctl in the $PATH of ssh on {} is the one of Red Hat's Flight Control, and not flightd's{}",
        host.destination, because);
  if (status > 128)
    return fmt::format("the connection to {} ended by signal {}{}", host.destination, status - 128, because);
  return fmt::format("flightctl ended with {} on {}{}", status, host.destination, because);
}

}  // namespace flight::ctl
