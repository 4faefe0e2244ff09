// SPDX-License-Identifier: Apache-2.0
#include "ctl/command_line.hpp"

#include <algorithm>
#include <string_view>

#include "ctl/host.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/version.hpp"
#include "libcore/store/names.hpp"

namespace flight::ctl {
namespace {

// An ID as the daemon takes it, or why it does not.
std::string check_id(const std::string& id) {
  const bool digits = !id.empty() && std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (id == "latest" || (digits && id.size() <= 20 && id[0] != '0')) return "";
  return "'" + printable(id) + "' is no snapshot's id: use a number of `flightctl list`, or latest";
}

std::string check_host(const std::string& host) {
  const auto parsed = parse_host(host);
  return parsed ? "" : parsed.error().what;
}

// With --host it is a word of a shell's line on the other side.
std::string check_socket(const std::string& path) {
  if (path.empty()) return "it must not be empty";
  return is_printable(path) ? "" : "'" + printable(path) + "' cannot be a socket's path";
}

// An empty text would be taken for an option that was not given.
std::string check_not_empty(const std::string& text) { return text.empty() ? "it must not be empty" : ""; }

// Below the options of --help.
void example(CLI::App* command, const std::string& line) {
  const char* const more =
      command->get_parent() == nullptr ? "" : "\n\n--host, --socket and --json: see flightctl --help";
  command->footer("Example:\n  " + line + more);
}

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
  example(command, "flightctl snapshot --last 10s --post 2s --reason \"checkout is slow\"");
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
  example(command, "flightctl --json list --trigger oom --since today | jq -r '.[].id'");
}

void add_id(CLI::App* command, std::string& id) {
  command->add_option("ID", id, "a number of the list, or latest; default: latest")->type_name("")->check(check_id);
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
  example(command, "flightctl report latest --sort comm,dso,sym");
}

void add_ids(CLI::App* command, std::vector<std::string>& ids) {
  command->add_option("ID", ids, "numbers of the list, or latest")->type_name("")->required()->check(check_id);
  example(command, fmt::format("flightctl {} 12 13", command->get_name()));
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
  for (CLI::App* command : triggers->get_subcommands([](CLI::App*) { return true; })) {
    command->fallthrough();
    example(command, fmt::format("flightctl triggers {} cpu-spike", command->get_name()));
  }
  example(triggers, "flightctl triggers test cpu-spike");
  CLI::App* fire = app.add_subcommand("fire", "Fire an external trigger: for health checks and scripts");
  add_name(fire);
  fire->add_option("--reason", line.reason, "why; kept with the snapshot")->type_name("TEXT");
  example(fire, "flightctl fire checkout-slow --reason \"p99 is 1200 ms\" || true");
}

}  // namespace

void add_commands(CLI::App& app, CommandLine& line) {
  app.add_option("-H,--host", line.common.host, "the flightd of another machine, through ssh: [USER@]HOST[:PORT]")
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

  example(&app, "flightctl -H web3 list -n 3");

  example(app.add_subcommand("status", "What flightd is doing, and what it costs"),
          "flightctl --json status | jq .warnings");
  example(app.add_subcommand("doctor", "What this machine gives to flightd, and what is to be done about it"),
          "sudo flightctl doctor");
  add_snapshot(app, line.snapshot);
  add_list(app, line.list, line.only_last);
  CLI::App* info = app.add_subcommand("info", "What is known about one snapshot");
  add_id(info, line.info_id);
  example(info, "flightctl info latest");
  CLI::App* get = app.add_subcommand("get", "Copy a snapshot's file to where you are, as a file of your own");
  add_id(get, line.get_id);
  add_output(get, line.get_output, "write it there; - is stdout; default: its own name, here");
  get->add_flag("--with-symbols", line.with_symbols,
                "a tar for another machine: file, sidecar and the kernel's symbols; default: its own name.tar, here");
  example(get, "flightctl -H web3 get latest --with-symbols -o web3.tar");
  add_report(app, line.report);
  add_ids(app.add_subcommand("remove", "Delete snapshots, pinned ones too")->alias("rm"), line.ids);
  add_ids(app.add_subcommand("pin", "Keep snapshots from being deleted to make room"), line.ids);
  add_ids(app.add_subcommand("unpin", "Take that back"), line.ids);
  add_triggers(app, line);
  CLI::App* vacuum = app.add_subcommand("vacuum", "Delete what is over the store's budget now");
  vacuum->add_flag("--dry-run", line.dry_run, "only say what would go");
  example(vacuum, "flightctl vacuum --dry-run");
  example(app.add_subcommand("pause", "Stop recording; what is held stays, and snapshots of it can be taken"),
          "flightctl pause; sleep 60; flightctl resume");
  example(app.add_subcommand("resume", "Record again"), "flightctl resume");
  example(app.add_subcommand("reload", "Read the configuration again; channels that did not change keep their history"),
          "flightctl reload && flightctl config");
  example(app.add_subcommand("config", "What is in force, which file each value came from, and what memory that takes"),
          "flightctl config | grep store");
  example(app.add_subcommand("monitor", "Tell what happens, a line each, until interrupted"),
          "flightctl --json monitor | jq -r .event");
  example(app.add_subcommand("bridge", "Connect stdin and stdout to the control socket: what --host runs over there"),
          "ssh web3 flightctl bridge");
  CLI::App* help = app.add_subcommand("help", "Say what a command does, as its --help");
  help->add_option("COMMAND", line.help_of, "the command, and its own where it has some; default: all of flightctl")
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
