// SPDX-License-Identifier: Apache-2.0
#include "ctl/help.hpp"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "ctl/screen.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kHelpColumns = 80;    // a wider page is harder to read
constexpr std::size_t kNarrowColumns = 60;  // below that, a description stands below its option
constexpr std::size_t kBelowOption = 6;
constexpr std::size_t kDescriptionColumn = 30;  // CLI11's column of them

// Its form is read by tests/docs: a command with another name of it in parentheses.
constexpr const char* kPage = R"(Controls flightd, the always-on flight recorder. Without a command: list.
Usage: flightctl [OPTIONS] [COMMAND]

Options:
  -H,--host HOST  use flightd on another machine: [USER@]HOST[:PORT], by ssh
  --socket PATH   control socket; default: $FLIGHTD_SOCKET, else
                  /run/flightd/io.flightd.Recorder
  --json          JSON on stdout; errors as one line of JSON on stderr
  -h,--help       this help; of a command: flightctl COMMAND --help
  --version       the version

Subcommands:
  snapshot, record       write the recent past to a file; go on from there
  list, info (show)      list the snapshots; show what they contain
  stacks, diff, sched    show the call tree; compare two; show who waited
  report, html, export   run perf report; show it in a browser, other viewers
  get, pin, unpin        copy it; protect it from deletion; allow that again
  remove (rm), vacuum    delete snapshots; delete what is over the budget
  status, doctor         show what flightd does; check what this machine lacks
  triggers, fire         show what takes snapshots; fire an external trigger
  pause, resume          stop recording; go on
  reload, config         read the configuration again; show it
  monitor, help, bridge  print events; show help; serve a remote flightctl
)";

// The column where the description of the line begins. If the line has no description, its text begins there.
std::size_t description_at(std::string_view line) {
  constexpr std::size_t kOptions = 2;  // the column where they begin
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  if (first != kOptions) return first;
  if (const std::size_t gap = line.find("  ", first); gap != std::string_view::npos)
    return std::min(line.find_first_not_of(' ', gap), line.size());
  // After a long option there is one space only.
  const bool behind = line[first] == '-' && line.size() > kDescriptionColumn && line[kDescriptionColumn - 1] == ' ';
  return behind ? kDescriptionColumn : first;
}

std::string wrapped_line(std::string_view line, const Screen& screen) {
  const std::size_t at = description_at(line);
  const std::string_view head = line.substr(0, at);
  if (screen.width() >= kNarrowColumns) return screen.wrapped(line.substr(at), at, head);
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  if (first == at) return screen.wrapped(line.substr(at), std::min(at, kBelowOption));
  return screen.wrapped(head.substr(first, head.find_last_not_of(' ') + 1 - first), first) +
         screen.wrapped(line.substr(at), kBelowOption);
}

// The page for the terminal's width; descriptions stay in their column.
std::string fitted(std::string_view page) {
  const Screen screen(false, std::min(known_columns(STDOUT_FILENO).value_or(kHelpColumns), kHelpColumns));
  std::string out;
  while (!page.empty()) {
    const std::size_t end = std::min(page.find('\n'), page.size());
    const std::string_view line = page.substr(0, end);
    // CLI11 writes two empty lines behind the options if an argument is not listed.
    if (!line.empty() || !out.ends_with("\n\n"))
      out += line.size() <= screen.width() ? std::string(line) + "\n" : wrapped_line(line, screen);
    page.remove_prefix(std::min(end + 1, page.size()));
  }
  return out;
}

}  // namespace

std::string HelpPage::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  if (app->get_parent() == nullptr) return fitted(kPage);
  return fitted(CLI::Formatter::make_help(app, std::move(name), mode));
}

}  // namespace flight::ctl
