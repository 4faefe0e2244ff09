// SPDX-License-Identifier: Apache-2.0
#include "ctl/patience.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "ctl/output.hpp"
#include "libcore/base/files.hpp"

namespace flight::ctl {
namespace {

bool at_terminal() { return ::isatty(STDIN_FILENO) == 1 || ::isatty(STDERR_FILENO) == 1; }

// ssh asks at the process's terminal, wherever stdin and stderr go (/dev/tty, tty(4)).
bool ssh_can_ask() { return at_terminal() || open_file("/dev/tty", O_RDWR | O_NOCTTY).has_value(); }

// `what_waits` is the subject of both messages: "flightd at /run/… has not answered for".
Patience patience(bool asks, std::function<std::string(std::chrono::seconds)> what_waits, std::string advice) {
  const std::chrono::seconds limit = asks ? kSaysSoAfter : kEndsAfter;
  return {std::chrono::steady_clock::now() + limit,
          [asks, limit, what_waits = std::move(what_waits), advice = std::move(advice)]() -> Result<void> {
            const std::string text = what_waits(limit);
            if (!asks) return flight::fail(std::errc::timed_out, "{}, so flightctl gave up; {}", text, advice);
            // Not a failure of the command if the terminal does not take it.
            static_cast<void>(print(
                stderr, fmt::format("flightctl: {}; still waiting (Ctrl-C ends it); {}\n", printable(text), advice)));
            return {};
          }};
}

}  // namespace

Patience patience_here(const std::string& socket) {
  return patience(
      at_terminal(),
      [socket](std::chrono::seconds limit) {
        return fmt::format("flightd at {} has not answered for {} s", socket, limit.count());
      },
      "it hangs, is stopped, or is still starting: `systemctl status flightd` and its journal show which");
}

Patience patience_there(const Host& host, std::string command, std::function<std::string()> ssh_output) {
  const std::string by_hand = fmt::format("ssh {}{} flightctl status",
                                          host.port.empty() ? "" : fmt::format("-p {} ", host.port), host.destination);
  return patience(
      ssh_can_ask(),
      [destination = host.destination, command = std::move(command),
       ssh_output = std::move(ssh_output)](std::chrono::seconds limit) {
        const std::string words = last_words(ssh_output());
        return fmt::format("`flightctl {}`, run by ssh on {}, has not answered for {} s{}", command, destination,
                           limit.count(), words.empty() ? "" : fmt::format(" (ssh: {})", words));
      },
      fmt::format("ssh asks for something, the network is silent, or flightd hangs there: try `{}` at a terminal",
                  by_hand));
}

}  // namespace flight::ctl
