// SPDX-License-Identifier: Apache-2.0
// The words behind flightctl: which commands and options there are, what --help says of each, and where what was typed
// goes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ctl/commands.hpp"

namespace flight::ctl {

inline constexpr const char* kDefaultSocket = "/run/flightd/io.flightd.Recorder";

struct CommandLine {
  Common common;
  SnapshotOptions snapshot;
  ListOptions list;
  ReportOptions report;
  std::string info_id = "latest", get_id = "latest";
  std::vector<std::string> help_of;  // a command and its own
  OutputFile get_output;
  bool with_symbols = false, dry_run = false, only_last = false;
  std::vector<std::string> ids;  // of remove, pin, unpin
  std::string trigger, reason;   // of triggers and fire
};

// `line` outlives `app`. Every check that needs no daemon is made while it is parsed.
void add_commands(CLI::App& app, CommandLine& line);

// CLI11 takes the next word for what is missing in `--host= list`. Throws CLI::ParseError, as parsing does.
void check_values(int argc, char** argv);

// What stands behind `report ID` is perf's, whatever it looks like. How many words are ours, the program's name too.
[[nodiscard]] int own_words(int argc, char** argv);

}  // namespace flight::ctl
