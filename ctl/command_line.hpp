// SPDX-License-Identifier: Apache-2.0
// The command line of flightctl: its commands and options, their --help texts, and parsing.
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
  RecordOptions record;
  ListOptions list;
  ReportOptions report;
  StacksOptions stacks;
  DiffOptions diff;
  SchedOptions sched;
  ExportOptions exporting;
  HtmlOptions html;
  std::vector<std::string> info_ids, get_ids;  // none: latest
  std::vector<std::string> help_of;            // a command and its subcommand
  OutputFile get_output;
  bool with_symbols = false, plain = false, dry_run = false, only_last = false, all = false;
  std::vector<std::string> ids;  // of remove, pin, unpin
  std::string trigger, reason;   // of triggers and fire
  std::string config_key;
};

// `line` must outlive `app`. Checks that need no daemon run while the line is parsed.
void add_commands(CLI::App& app, CommandLine& line);

// Refuses an option with an empty value: in `--host= list`, CLI11 would take "list" as the host. Throws
// CLI::ParseError, as parsing does.
void check_values(int argc, char** argv);

// The number of words that flightctl parses, the program's name included: all, but for `report ID …` only those up to
// ID. The rest goes to perf unparsed.
[[nodiscard]] int own_words(int argc, char** argv);

}  // namespace flight::ctl
