// SPDX-License-Identifier: Apache-2.0
#include "ctl/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "ctl/help.hpp"
#include "ctl/option_checks.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/version.hpp"

namespace flight::ctl {
namespace {

// Adds an example below the options in --help. `gap`: empty if the page had too many lines for a screen otherwise.
void example(CLI::App* command, const std::string& line, const char* gap = "\n") {
  command->footer("Example:\n  " + line + "\n" + gap + "--host, --socket and --json: see flightctl --help");
}

void add_all(CLI::App* command, bool& all) {
  command->add_flag("-a,--all", all, "do not shorten the page for the terminal");
}

void add_output(CLI::App* command, OutputFile& output, const char* what) {
  command->add_option("-o,--output", output.path, what)->type_name("FILE")->check(check_not_empty);
  command->add_flag("-f,--force", output.force, "overwrite an existing file");
}

void add_snapshot(CLI::App& app, SnapshotOptions& options) {
  CLI::App* command = app.add_subcommand("snapshot", "Take a snapshot of the recent past and wait until it is durable");
  command->add_option("--reason", options.reason, "why; kept with the snapshot")->type_name("TEXT");
  auto* last = command->add_option("--last", options.last, "write only this much of the past: 500ms, 10s, 2min")
                   ->type_name("DURATION")
                   ->check(check_span);
  auto* since = command->add_option("--since", options.since, "begin at this time: 03:10, '2026-11-20 03:10', -30s")
                    ->type_name("TIME")
                    ->check(check_time)
                    ->excludes(last);
  command->add_option("--until", options.until, "end at this time")
      ->type_name("TIME")
      ->check(check_time)
      ->needs(since)
      ->excludes(last);
  command->add_option("--post", options.post, "first record this much longer; at most 60s")
      ->type_name("DURATION")
      ->check(check_span);
  command->add_option("--capture", options.capture, "pause: rings wait some microseconds; live: never")
      ->type_name("")
      ->check(check_capture);
  add_output(command, options.output, "copy the file to FILE; - is stdout");
  example(command, "flightctl snapshot --last 10s --post 2s --reason \"checkout is slow\"");
}

void add_record(CLI::App& app, RecordOptions& options) {
  CLI::App* command = app.add_subcommand("record", "Record into files from now on, until Ctrl-C or for some time");
  std::vector<CLI::Option*> all;
  const auto add = [&](const char* name, std::string& value, const char* what, const char* type,
                       std::string (*check)(const std::string&)) {
    all.push_back(command->add_option(name, value, what)->type_name(type)->check(check));
  };
  add("--past", options.past, "begin with this much of what the rings hold: 10s", "DURATION", &check_span);
  add("--for", options.duration, "end after this time; default: at Ctrl-C or --stop", "DURATION", &check_span);
  add("--max-size", options.max_size, "end at this size: 500M; default: record.max_size", "SIZE", &check_size);
  add("--switch-size", options.switch_size, "size of a part: 64M; default: record.switch_size", "SIZE", &check_size);
  add("--layout", options.layout, "file or directory; default: record.layout", "LAYOUT", &check_not_empty);
  add("--reason", options.reason, "why; kept with the parts", "TEXT", &check_not_empty);
  all.push_back(command->add_option("--channel", options.channels, "record only this channel; can be repeated")
                    ->type_name("NAME")
                    ->allow_extra_args(false)
                    ->check(check_not_empty));
  add_output(command, options.output, "copy the parts to FILE, FILE.2 and so on, each when it is whole");
  CLI::Option* stop = command->add_option("--stop", options.stop, "end the recording with this id")
                          ->type_name("ID")
                          ->check(check_recording_id);
  for (const char* name : {"--output", "--force"}) all.push_back(command->get_option(name));
  command->callback([stop, all] {
    for (const CLI::Option* option : all)
      if (stop->count() > 0 && option->count() > 0)
        throw CLI::ValidationError("--stop", "it cannot be given with " + option->get_name());
  });
  example(command, "flightctl record --past 1min --for 10min --reason \"checkout is slow\"");
}

void add_list(CLI::App& app, ListOptions& options, bool& only_last, bool& all) {
  CLI::App* command = app.add_subcommand("list", "List the snapshots, oldest first");
  command
      ->add_option("--since", options.since,
                   "only snapshots from this time on: 03:10, 'yesterday 03:10', '1 hour ago', -1h")
      ->type_name("TIME")
      ->check(check_time);
  command->add_option("--until", options.until, "only snapshots up to this time")->type_name("TIME")->check(check_time);
  command->add_option("--trigger", options.trigger, "only snapshots of this trigger: cpu-spike, 'cpu*'")
      ->type_name("PATTERN")
      ->check(check_not_empty);
  command->add_option("-u,--unit", options.unit, "only snapshots in which this unit was busy: nginx, 'web*.service'")
      ->type_name("PATTERN")
      ->check(check_not_empty);
  auto* count = command->add_option("-n", options.count, "only the newest COUNT snapshots")
                    ->type_name("COUNT")
                    ->check(check_count);
  command->add_flag("-1", only_last, "only the newest snapshot")->excludes(count);
  command->add_flag("-r,--reverse", options.reverse, "show the newest first");
  add_all(command, all);
  example(command, "flightctl --json list --trigger oom --since today | jq -r '.[].id'");
}

// A second `latest` would select another snapshot than the first.
void refuse_twice(CLI::App* command, const std::vector<std::string>& ids) {
  command->callback([&ids] {
    std::vector<std::string> sorted = ids;
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
      throw CLI::ValidationError("ID", "'" + *twice + "' is given twice");
  });
}

void add_report(CLI::App& app, ReportOptions& options) {
  CLI::App* command = app.add_subcommand(
      "report", "Run perf report on a snapshot, with the kernel symbols of its boot: report ID [PERF-ARGS...]");
  command->add_option("ID", options.id, "a number from the list, or latest; all arguments after it go to perf")
      ->type_name("")
      ->check(check_id);
  command->add_option("--perf", options.perf, "the perf to use; default: $PERF, else perf in $PATH")
      ->type_name("PATH")
      ->check(check_not_empty);
  example(command, "flightctl report latest --sort comm,dso,sym");
}

// Which samples are counted, and how they are shown.
void add_tree_options(CLI::App* command, StacksOptions& options) {
  const auto add = [command](const char* name, std::string& value, const char* what, const char* type,
                             std::string (*check)(const std::string&)) {
    command->add_option(name, value, what)->type_name(type)->check(check);
  };
  add("-u,--unit", options.unit, "only this unit: nginx, 'web*.service'", "PATTERN", &check_not_empty);
  add("--comm", options.comm, "only threads of this name", "PATTERN", &check_not_empty);
  add("--thread", options.thread, "only the thread with this number", "TID", &check_number);
  add("--cpu", options.cpu, "only this CPU", "CPU", &check_number);
  add("--event", options.event, "the event; default: the one that samples", "EVENT", &check_not_empty);
  command->add_flag("--inverted", options.inverted, "from the functions that ran to their callers");
  command->add_flag("--shares", options.shares, "shares of all samples instead of CPUs");
  command->add_option("-n", options.count, "how many rows; default: 20, on a terminal fewer")
      ->type_name("COUNT")
      ->check(check_count);
}

void add_stacks(CLI::App& app, StacksOptions& options) {
  CLI::App* command = app.add_subcommand("stacks", "Show the call tree of a snapshot, default latest, now and before");
  // The help has no lines for it, so that all of it fits on a screen.
  command->add_option("ID", options.id, "a number from the list, or latest")->type_name("")->group("")->check(check_id);
  add_tree_options(command, options);
  command->add_option("--since", options.since, "from this time on: 03:10:05, -2s")
      ->type_name("TIME")
      ->check(check_time);
  command->add_option("--until", options.until, "up to this time; -2s: before the end")
      ->type_name("TIME")
      ->check(check_time);
  auto* before = command->add_flag("--before", options.before, "in the order of the time before");
  command->add_flag("--diff", options.diff, "in the order of the change, without noise")->excludes(before);
  example(command, "flightctl stacks latest --unit nginx --diff", "");
}

void add_diff(CLI::App& app, DiffOptions& options) {
  CLI::App* command = app.add_subcommand("diff", "Show what has changed from one snapshot to another");
  const auto add_id = [command](const char* name, std::string& id, const char* what) {
    command->add_option(name, id, what)->type_name("")->required()->check(check_id);
  };
  add_id("ID1", options.before, "the one before: a number from the list");
  add_id("ID2", options.of.id, "the one now, or latest");
  add_tree_options(command, options.of);
  command->callback([&options] {
    if (options.before == options.of.id) throw CLI::ValidationError("ID2", "'" + options.before + "' is given twice");
  });
  example(command, "flightctl diff 12 13 --unit nginx", "");
}

void add_sched(CLI::App& app, SchedOptions& options) {
  CLI::App* command = app.add_subcommand("sched", "Show who waited for a CPU, and who was blocked (profile \"sched\")");
  command->add_option("ID", options.id, "a number from the list, or latest; default: latest")
      ->type_name("")
      ->check(check_id);
  command->add_option("--since", options.since, "from this time on: 03:10:05, -2s")
      ->type_name("TIME")
      ->check(check_time);
  command->add_option("--until", options.until, "up to this time; -2s: before the end")
      ->type_name("TIME")
      ->check(check_time);
  command->add_option("-n", options.count, "how many threads; default: 20, on a terminal fewer")
      ->type_name("COUNT")
      ->check(check_count);
  example(command, "flightctl sched latest --since -2s");
}

void add_export(CLI::App& app, ExportOptions& options) {
  CLI::App* command = app.add_subcommand("export", "Write the stacks of a snapshot for other viewers");
  command->add_option("ID", options.id, "a number from the list, or latest; default: latest")
      ->type_name("")
      ->check(check_id);
  command->add_option("--format", options.format, "folded (lines of text), pprof or firefox")
      ->type_name("FORMAT")
      ->required()
      ->check(check_format);
  auto* labels = command->add_option("--labels", options.labels, "more labels for pprof: thread,tid,cpu")
                     ->type_name("LABELS")
                     ->check(check_labels);
  command->callback([&options, labels] {
    if (labels->count() > 0 && options.format != "pprof")
      throw CLI::ValidationError("--labels", "only --format pprof has labels");
  });
  command->add_option("--event", options.event, "the event whose samples are counted; default: the one that samples")
      ->type_name("EVENT")
      ->check(check_not_empty);
  add_output(command, options.output,
             "write to FILE; - is stdout; default: the snapshot's name in the current directory");
  example(command, "flightctl export latest --format folded -o - | flamegraph.pl > flames.svg");
}

void add_html(CLI::App& app, HtmlOptions& options) {
  CLI::App* command = app.add_subcommand("html", "Write a page that shows a snapshot in a browser");
  command->add_option("ID", options.id, "a number from the list, or latest; default: latest")
      ->type_name("")
      ->check(check_id);
  command->add_option("--against", options.against, "compare it with this snapshot, the one before")
      ->type_name("ID")
      ->check(check_id);
  add_output(command, options.output,
             "write to FILE; - is stdout; default: the snapshot's name with .html in the current directory");
  command->add_flag("--open", options.open, "then open it with xdg-open");
  command->callback([&options] {
    if (options.against == options.id) throw CLI::ValidationError("--against", "'" + options.id + "' is given twice");
    if (options.open && options.output.path == "-") throw CLI::ValidationError("--open", "stdout cannot be opened");
  });
  example(command, "flightctl -H web3 html latest --open");
}

void add_ids(CLI::App* command, std::vector<std::string>& ids) {
  command->add_option("ID", ids, "numbers from the list, or latest")->type_name("")->required()->check(check_id);
  example(command, fmt::format("flightctl {} 12 13", command->get_name()));
  refuse_twice(command, ids);
}

void add_triggers(CLI::App& app, CommandLine& line) {
  const auto add_name = [&line](CLI::App* command) {
    command->add_option("NAME", line.trigger, "name of the trigger")->type_name("")->required()->check(check_trigger);
  };
  CLI::App* triggers = app.add_subcommand("triggers", "Show the triggers, which take snapshots automatically");
  triggers->require_subcommand(0, 1);
  triggers->add_subcommand("list", "Show the triggers; the default");
  add_name(triggers->add_subcommand("enable", "Enable a trigger"));
  add_name(triggers->add_subcommand("disable", "Disable a trigger; it stays disabled after a restart of flightd"));
  add_name(triggers->add_subcommand("test", "Run the action of a trigger once, without its condition"));
  for (CLI::App* command : triggers->get_subcommands([](CLI::App*) { return true; })) {
    command->fallthrough();
    const bool named = command->get_name() != "list";
    example(command, fmt::format("flightctl triggers {}{}", command->get_name(), named ? " cpu-spike" : ""));
  }
  example(triggers, "flightctl triggers test cpu-spike");
  CLI::App* fire = app.add_subcommand("fire", "Fire an external trigger, from a health check or a script");
  add_name(fire);
  fire->add_option("--reason", line.reason, "why; kept with the snapshot")->type_name("TEXT");
  example(fire, "flightctl fire checkout-slow --reason \"p99 is 1200 ms\" || true");
}

}  // namespace

void add_commands(CLI::App& app, CommandLine& line) {
  app.formatter(std::make_shared<HelpPage>());
  app.add_option("-H,--host", line.common.host, "use flightd on another machine, through ssh: [USER@]HOST[:PORT]")
      ->type_name("HOST")
      ->check(check_host);
  app.add_option("--socket", line.common.socket,
                 std::string("the daemon's control socket; default: $FLIGHTD_SOCKET, else ") + kDefaultSocket)
      ->type_name("PATH")
      ->check(check_socket);
  app.add_flag("--json", line.common.json, "JSON on stdout; errors as one line of JSON on stderr");
  app.set_version_flag("--version", std::string("flightctl ") + std::string(kVersion));
  app.fallthrough();
  app.require_subcommand(0, 1);

  example(app.add_subcommand("status", "Show the state of flightd and its cost"),
          "flightctl --json status | jq .warnings");
  CLI::App* doctor =
      app.add_subcommand("doctor", "Check what this machine provides for flightd; advise how to fix problems");
  add_all(doctor, line.all);
  example(doctor, "sudo flightctl doctor");
  add_snapshot(app, line.snapshot);
  add_record(app, line.record);
  add_list(app, line.list, line.only_last, line.all);
  CLI::App* info = app.add_subcommand("info", "Show what snapshots contain and what they lack")->alias("show");
  info->add_option("ID", line.info_ids, "numbers from the list, or latest; default: latest")
      ->type_name("")
      ->check(check_id);
  refuse_twice(info, line.info_ids);
  add_all(info, line.all);
  example(info, "flightctl info latest");
  CLI::App* get = app.add_subcommand("get", "Copy the files of snapshots to the current directory");
  get->add_option("ID", line.get_ids, "numbers from the list, or latest; default: latest")
      ->type_name("")
      ->check(check_id);
  refuse_twice(get, line.get_ids);
  add_output(get, line.get_output, "write to FILE; - is stdout; default: the snapshot's name in the current directory");
  CLI::Option* symbols = get->add_flag(
      "--with-symbols", line.with_symbols,
      "write a tar for another machine: file, sidecar and kernel symbols; default name: the snapshot's .tar");
  get->add_flag("--plain", line.plain,
                "write the file without compression, for readers other than perf; default name: the snapshot's "
                ".plain.perf.data")
      ->excludes(symbols);
  example(get, "flightctl -H web3 get latest --with-symbols -o web3.tar");
  add_report(app, line.report);
  add_stacks(app, line.stacks);
  add_diff(app, line.diff);
  add_sched(app, line.sched);
  add_export(app, line.exporting);
  add_html(app, line.html);
  add_ids(app.add_subcommand("remove", "Delete snapshots, also pinned ones")->alias("rm"), line.ids);
  add_ids(app.add_subcommand("pin", "Protect snapshots from automatic deletion"), line.ids);
  add_ids(app.add_subcommand("unpin", "Allow automatic deletion of these snapshots again"), line.ids);
  add_triggers(app, line);
  CLI::App* vacuum = app.add_subcommand("vacuum", "Delete the snapshots that are over the store's budget");
  vacuum->add_flag("--dry-run", line.dry_run, "show only what would be deleted");
  example(vacuum, "flightctl vacuum --dry-run");
  example(app.add_subcommand("pause", "Stop recording; the rings keep their content, and snapshots still work"),
          "flightctl pause; sleep 60; flightctl resume");
  example(app.add_subcommand("resume", "Resume recording"), "flightctl resume");
  example(app.add_subcommand("reload", "Read the configuration again; channels that did not change keep their history"),
          "flightctl reload && flightctl config");
  CLI::App* config =
      app.add_subcommand("config", "Show the configuration in force, the file of each value, and the memory it needs");
  config
      ->add_option("KEY", line.config_key,
                   "show only this value, or all values below it: store.max_use, store; default: all")
      ->type_name("")
      ->check(check_not_empty);
  add_all(config, line.all);
  example(config, "flightctl config store.max_use");
  example(app.add_subcommand("monitor", "Print a line for each event, until interrupted"),
          "flightctl --json monitor | jq -r .event");
  example(app.add_subcommand("bridge", "Connect stdin and stdout to the control socket (--host runs this remotely)"),
          "ssh web3 flightctl bridge");
  CLI::App* help = app.add_subcommand("help", "Show the help of a command, like --help");
  help->add_option("COMMAND", line.help_of, "the command, and its subcommand if any; default: flightctl")
      ->type_name("");
  example(help, "flightctl help snapshot");
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) command->fallthrough();
}

void check_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.size() > 3 && word.starts_with("--") && word.find('=') == word.size() - 1)
      throw CLI::ArgumentMismatch("'" + printable(word) + "' has no value");
  }
}

int own_words(int argc, char** argv) {
  bool report = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--socket" || word == "--host" || word == "-H" || (report && word == "--perf")) {
      ++i;
    } else if (!word.starts_with('-')) {
      if (report) return i + 1;
      if (word != "report") return argc;
      report = true;
    }
  }
  return argc;
}

}  // namespace flight::ctl
