// SPDX-License-Identifier: Apache-2.0
#include "ctl/help.hpp"

#include <utility>

namespace flight::ctl {
namespace {

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
  snapshot, record     write the recent past to a file; go on from there
  list, info (show)    list the snapshots; show what they contain
  report, get          open a snapshot in perf report; copy snapshots
  pin, unpin           protect snapshots from deletion; allow it again
  remove (rm), vacuum  delete snapshots; delete what is over the budget
  status, doctor       show what flightd does; check what this machine lacks
  triggers, fire       show what takes snapshots; fire an external trigger
  pause, resume        stop recording; go on
  reload, config       read the configuration again; show it
  monitor              print a line for each event
  help, bridge         show the help of a command; serve a remote flightctl
)";

}  // namespace

std::string HelpPage::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  if (app->get_parent() == nullptr) return kPage;
  return CLI::Formatter::make_help(app, std::move(name), mode);
}

}  // namespace flight::ctl
