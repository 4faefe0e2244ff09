// SPDX-License-Identifier: Apache-2.0
// flightctl: the command line, and nothing else. Every usage error is exit code 2.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <string_view>

#include "ctl/commands.hpp"
#include "ctl/output.hpp"
#include "libcore/base/version.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/store/names.hpp"

namespace flight::ctl {
namespace {

constexpr const char* kDefaultSocket = "/run/flightd/io.flightd.Recorder";

struct CommandLine {
  Common common;
  SnapshotOptions snapshot;
  ListOptions list;
  ReportOptions report;
  std::string info_id = "latest", get_id = "latest";
  OutputFile get_output;
  bool with_symbols = false, dry_run = false, only_last = false;
  std::vector<std::string> ids;  // of remove, pin, unpin
  std::string trigger, reason;   // of triggers and fire
};

// An ID as the daemon takes it, or why it does not.
std::string check_id(const std::string& id) {
  const bool digits = !id.empty() && std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (id == "latest" || (digits && id.size() <= 20 && id[0] != '0')) return "";
  return "'" + printable(id) + "' is no snapshot's id: use a number of `flightctl list`, or latest";
}

// An empty text would be taken for an option that was not given.
std::string check_not_empty(const std::string& text) { return text.empty() ? "it must not be empty" : ""; }

void add_output(CLI::App* command, OutputFile& output, const char* what) {
  command->add_option("-o,--output", output.path, what)->type_name("FILE")->check(check_not_empty);
  command->add_flag("-f,--force", output.force, "write over a file that is there already");
}

void add_snapshot(CLI::App& app, SnapshotOptions& options) {
  CLI::App* command = app.add_subcommand("snapshot", "Take a snapshot of the recent past and wait until it is durable");
  command->add_option("--reason", options.reason, "why; kept with the snapshot")->type_name("TEXT");
  auto* last = command->add_option("--last", options.last, "only so much of the past: 500ms, 10s, 2min")
                   ->type_name("DURATION")
                   ->check(check_not_empty);
  auto* since = command->add_option("--since", options.since, "from this time on: 03:10, '2026-11-20 03:10', -30s")
                    ->type_name("TIME")
                    ->check(check_not_empty)
                    ->excludes(last);
  command->add_option("--until", options.until, "up to this time")
      ->type_name("TIME")
      ->check(check_not_empty)
      ->needs(since)
      ->excludes(last);
  command->add_option("--post", options.post, "wait so long first, so that the aftermath is in it; at most 60s")
      ->type_name("DURATION")
      ->check(check_not_empty);
  command->add_option("--capture", options.capture, "pause: each ring stands still for a moment; live: none does")
      ->type_name("")
      ->check(CLI::IsMember({"pause", "live"}));
  add_output(command, options.output, "copy the file to FILE; - is stdout");
}

void add_list(CLI::App& app, ListOptions& options, bool& only_last) {
  CLI::App* command = app.add_subcommand("list", "The snapshots, the oldest first");
  command->add_option("--since", options.since, "from this time on: 03:10, '2026-11-20 03:10', yesterday, -1h")
      ->type_name("TIME")
      ->check(check_not_empty);
  command->add_option("--until", options.until, "up to this time")->type_name("TIME")->check(check_not_empty);
  command->add_option("--trigger", options.trigger, "only those of this trigger")
      ->type_name("NAME")
      ->check(check_not_empty);
  auto* count = command->add_option("-n", options.count, "only the newest so many")
                    ->type_name("COUNT")
                    ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
  command->add_flag("-1", only_last, "only the newest")->excludes(count);
  command->add_flag("-r,--reverse", options.reverse, "the newest first");
}

void add_report(CLI::App& app, ReportOptions& options) {
  CLI::App* command = app.add_subcommand(
      "report", "perf report of a snapshot, with the kernel's symbols of its boot: report ID [PERF-ARGS...]");
  command->add_option("ID", options.id, "a number of the list, or latest; all behind it is perf's")
      ->type_name("")
      ->check(check_id);
  command->add_option("--perf", options.perf, "the perf to use; else $PERF, else the one in the path")
      ->type_name("PATH")
      ->check(check_not_empty);
}

// What stands behind `report ID` is perf's, whatever it looks like. How many words are ours.
int own_words(int argc, char** argv) {
  bool report = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--socket" || (report && word == "--perf")) {
      ++i;
    } else if (!word.starts_with('-')) {
      if (report) return i + 1;
      if (word != "report") return argc;
      report = true;
    }
  }
  return argc;
}

void add_ids(CLI::App* command, std::vector<std::string>& ids) {
  command->add_option("ID", ids, "numbers of the list, or latest")->type_name("")->required()->check(check_id);
  // The second `latest` would mean another one than the first.
  command->callback([&ids] {
    std::vector<std::string> sorted = ids;
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
      throw CLI::ValidationError("ID", "'" + *twice + "' is given twice");
  });
}

std::string check_trigger(const std::string& name) {
  return valid_trigger_name(name) ? ""
                                  : "'" + printable(name) + "' is no trigger's name; `flightctl triggers` shows all";
}

void add_triggers(CLI::App& app, CommandLine& line) {
  const auto add_name = [&line](CLI::App* command) {
    command->add_option("NAME", line.trigger, "the trigger's")->type_name("")->required()->check(check_trigger);
  };
  CLI::App* triggers = app.add_subcommand("triggers", "What makes flightd take a snapshot by itself");
  triggers->require_subcommand(0, 1);
  add_name(triggers->add_subcommand("enable", "Let it fire again"));
  add_name(triggers->add_subcommand("disable", "Do not let it fire, also after a restart of flightd"));
  add_name(triggers->add_subcommand("test", "Take its action once, as if its condition held"));
  for (CLI::App* command : triggers->get_subcommands([](CLI::App*) { return true; })) command->fallthrough();
  CLI::App* fire = app.add_subcommand("fire", "Fire an external trigger: for health checks and scripts");
  add_name(fire);
  fire->add_option("--reason", line.reason, "why; kept with the snapshot")->type_name("TEXT");
}

int run_triggers_command(const CLI::App& triggers, const CommandLine& line) {
  if (triggers.got_subcommand("enable")) return run_set_trigger(line.common, line.trigger, true);
  if (triggers.got_subcommand("disable")) return run_set_trigger(line.common, line.trigger, false);
  if (triggers.got_subcommand("test")) return run_test_trigger(line.common, line.trigger);
  return run_triggers(line.common);
}

void add_commands(CLI::App& app, CommandLine& line) {
  app.add_option("--socket", line.common.socket, "the daemon's control socket")
      ->type_name("PATH")
      ->envname("FLIGHTD_SOCKET")
      ->default_str(kDefaultSocket)
      ->check(check_not_empty);
  app.add_flag("--json", line.common.json, "JSON on stdout; errors as one line of JSON on stderr");
  app.set_version_flag("--version", std::string("flightctl ") + std::string(kVersion));
  app.fallthrough();
  app.require_subcommand(0, 1);

  app.add_subcommand("status", "What flightd is doing, and what it costs");
  add_snapshot(app, line.snapshot);
  add_list(app, line.list, line.only_last);
  app.add_subcommand("info", "What is known about one snapshot")
      ->add_option("ID", line.info_id, "a number of the list, or latest")
      ->type_name("")
      ->check(check_id);
  CLI::App* get = app.add_subcommand("get", "Copy a snapshot's file to where you are, as a file of your own");
  get->add_option("ID", line.get_id, "a number of the list, or latest")->type_name("")->check(check_id);
  add_output(get, line.get_output, "write it there; - is stdout; default: its own name, here");
  get->add_flag("--with-symbols", line.with_symbols,
                "a tar for another machine: file, sidecar and the kernel's symbols; default: its own name.tar, here");
  add_report(app, line.report);
  add_ids(app.add_subcommand("remove", "Delete snapshots, pinned ones too")->alias("rm"), line.ids);
  add_ids(app.add_subcommand("pin", "Keep snapshots from being deleted to make room"), line.ids);
  add_ids(app.add_subcommand("unpin", "Take that back"), line.ids);
  add_triggers(app, line);
  app.add_subcommand("vacuum", "Delete what is over the store's budget now")
      ->add_flag("--dry-run", line.dry_run, "only say what would go");
  app.add_subcommand("pause", "Stop recording; what is held stays, and snapshots of it can be taken");
  app.add_subcommand("resume", "Record again");
  app.add_subcommand("reload", "Read the configuration again; channels that did not change keep their history");
  app.add_subcommand("config", "What is in force, which file each value came from, and what memory that takes");
  app.add_subcommand("monitor", "Tell what happens, a line each, until interrupted");
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) command->fallthrough();
}

int run(const CLI::App& app, const CommandLine& line) {
  if (app.got_subcommand("status")) return run_status(line.common);
  if (app.got_subcommand("snapshot")) return run_snapshot(line.common, line.snapshot);
  if (app.got_subcommand("info")) return run_info(line.common, line.info_id);
  if (app.got_subcommand("get")) return run_get(line.common, line.get_id, line.get_output, line.with_symbols);
  if (app.got_subcommand("report")) return run_report(line.common, line.report);
  if (app.got_subcommand("vacuum")) return run_vacuum(line.common, line.dry_run);
  if (app.got_subcommand("remove")) return run_remove(line.common, line.ids);
  if (app.got_subcommand("pin")) return run_pin(line.common, line.ids, true);
  if (app.got_subcommand("unpin")) return run_pin(line.common, line.ids, false);
  if (app.got_subcommand("triggers")) return run_triggers_command(*app.get_subcommand("triggers"), line);
  if (app.got_subcommand("fire")) return run_fire(line.common, line.trigger, line.reason);
  if (app.got_subcommand("pause")) return run_recording(line.common, false);
  if (app.got_subcommand("resume")) return run_recording(line.common, true);
  if (app.got_subcommand("reload")) return run_reload(line.common);
  if (app.got_subcommand("config")) return run_config(line.common);
  if (app.got_subcommand("monitor")) return run_monitor(line.common);
  return run_list(line.common, line.list);  // a bare flightctl lists
}

int main_of(int argc, char** argv) {
  CommandLine line;
  line.common.socket = kDefaultSocket;
  CLI::App app("Talks to flightd, the always-on flight recorder. Without a command: list.", "flightctl");
  add_commands(app, line);
  const int own = own_words(argc, argv);
  line.report.arguments.assign(argv + own, argv + argc);
  try {
    app.parse(own, argv);
    if (line.only_last) line.list.count = 1;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    line.common.json =
        std::any_of(argv + 1, argv + own, [](const char* word) { return std::string_view(word) == "--json"; });
    return complain(line.common, kUsageError, std::string(error.what()) + "; see flightctl --help", kUsage);
  }
  return run(app, line);
}

}  // namespace
}  // namespace flight::ctl

int main(int argc, char** argv) {
  // Where one of them is closed, the next file or socket would be taken for it. Only for reading, so that what is
  // written there fails as it should.
  for (int fd = ::open("/dev/null", O_RDONLY); fd >= 0; fd = ::open("/dev/null", O_RDONLY))
    if (fd > STDERR_FILENO) {
      ::close(fd);
      break;
    }
  try {
    return flight::ctl::main_of(argc, argv);
  } catch (const std::exception& error) {  // CLI11's and the standard library's stop here
    std::cerr << "flightctl: " << error.what() << '\n';
    return flight::ctl::kRefused;
  }
}
