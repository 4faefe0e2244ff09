// SPDX-License-Identifier: Apache-2.0
// flightctl: parses the command line and runs the command. Every usage error is exit code 2.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/command_line.hpp"
#include "ctl/commands.hpp"
#include "ctl/output.hpp"
#include "ctl/usage_error.hpp"
#include "libcore/base/inherited_state.hpp"
#include "libcore/base/nearest_word.hpp"
#include "libcore/base/time_zone.hpp"

namespace flight::ctl {
namespace {

int run_triggers_command(const CLI::App& triggers, const CommandLine& line) {
  if (triggers.got_subcommand("enable")) return run_set_trigger(line.common, line.trigger, true);
  if (triggers.got_subcommand("disable")) return run_set_trigger(line.common, line.trigger, false);
  if (triggers.got_subcommand("test")) return run_test_trigger(line.common, line.trigger);
  return run_triggers(line.common);
}

// Prints the command's --help. A new app is needed: the parsed one would print the help of `help`.
int run_help(const CommandLine& line) {
  CommandLine unused;
  CLI::App app("", "flightctl");
  add_commands(app, unused);
  const CLI::App* of = &app;
  std::string prefix;  // the name that --help prints
  for (const std::string& name : line.help_of) {
    const auto commands = of->get_subcommands([](const CLI::App*) { return true; });
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&name](const CLI::App* command) { return command->check_name(name); });
    if (found == commands.end()) {
      std::vector<std::string> known;
      for (const CLI::App* command : commands) known.push_back(command->get_name());
      return complain(line.common, kUsageError,
                      with_help(unknown_words({name}, {}, known, of == &app ? "" : of->get_name()), "flightctl"),
                      kUsage);
    }
    prefix += (prefix.empty() ? "" : " ") + of->get_name();
    of = *found;
  }
  return print(stdout, of->help(prefix));
}

GetForm get_form(const CommandLine& line) {
  return line.with_symbols ? GetForm::bundle : line.plain ? GetForm::plain : GetForm::file;
}

int run(const CLI::App& app, const CommandLine& line) {
  if (app.got_subcommand("help")) return run_help(line);
  if (app.got_subcommand("doctor")) return run_doctor(line.common, line.all);
  if (app.got_subcommand("bridge")) return run_bridge(line.common);
  if (app.got_subcommand("status")) return run_status(line.common);
  if (app.got_subcommand("snapshot")) return run_snapshot(line.common, line.snapshot);
  if (app.got_subcommand("record")) return run_record(line.common, line.record);
  if (app.got_subcommand("info")) return run_info(line.common, line.info_ids, line.all);
  if (app.got_subcommand("get")) return run_get(line.common, line.get_ids, line.get_output, get_form(line));
  if (app.got_subcommand("report")) return run_report(line.common, line.report);
  if (app.got_subcommand("stacks")) return run_stacks(line.common, line.stacks);
  if (app.got_subcommand("diff")) return run_diff(line.common, line.diff);
  if (app.got_subcommand("sched")) return run_sched(line.common, line.sched);
  if (app.got_subcommand("export")) return run_export(line.common, line.exporting);
  if (app.got_subcommand("html")) return run_html(line.common, line.html);
  if (app.got_subcommand("vacuum")) return run_vacuum(line.common, line.dry_run);
  if (app.got_subcommand("remove")) return run_remove(line.common, line.ids);
  if (app.got_subcommand("pin")) return run_pin(line.common, line.ids, true);
  if (app.got_subcommand("unpin")) return run_pin(line.common, line.ids, false);
  if (app.got_subcommand("triggers")) return run_triggers_command(*app.get_subcommand("triggers"), line);
  if (app.got_subcommand("fire")) return run_fire(line.common, line.trigger, line.reason);
  if (app.got_subcommand("pause")) return run_recording(line.common, false);
  if (app.got_subcommand("resume")) return run_recording(line.common, true);
  if (app.got_subcommand("reload")) return run_reload(line.common);
  if (app.got_subcommand("config")) return run_config(line.common, line.config_key, line.all);
  if (app.got_subcommand("monitor")) return run_monitor(line.common);
  return run_list(line.common, line.list, line.all);  // without a command
}

// --socket if given; otherwise, without --host, $FLIGHTD_SOCKET or the default.
void fill_in_socket(Common& common) {
  if (!common.socket.empty() || !common.host.empty()) return;
  const char* from_environment = std::getenv("FLIGHTD_SOCKET");
  common.socket = from_environment != nullptr && *from_environment != '\0' ? from_environment : kDefaultSocket;
}

// The typed words lack a command that exists: "lst --help". The help would be that of another one.
bool lacks_command(const CLI::App& app) {
  const CLI::App* last = &app;
  for (auto below = last->get_subcommands(); !below.empty(); below = last->get_subcommands()) last = below.front();
  const std::vector<std::string> unknown = app.remaining(true);
  return !last->get_subcommands([](const CLI::App*) { return true; }).empty() &&
         std::any_of(unknown.begin(), unknown.end(), [](const std::string& word) { return !word.starts_with('-'); });
}

int main_of(int argc, char** argv) {
  CommandLine line;
  CLI::App app("", "flightctl");
  add_commands(app, line);
  const int own = own_words(argc, argv);
  line.report.arguments.assign(argv + own, argv + argc);
  try {
    check_values(own, argv);
    app.parse(own, argv);
    if (line.only_last) line.list.count = 1;
    if (app.got_subcommand("bridge") && !line.common.host.empty())
      throw CLI::ValidationError("--host", "--host runs `flightctl bridge` itself");
    fill_in_socket(line.common);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0 && !lacks_command(app)) {  // --help, --version
      std::ostringstream out;
      static_cast<void>(app.exit(error, out));
      return print(stdout, out.str());
    }
    line.common.json =
        std::any_of(argv + 1, argv + own, [](const char* word) { return std::string_view(word) == "--json"; });
    const std::span<char* const> words(argv, static_cast<std::size_t>(own));
    return complain(line.common, kUsageError, usage_error_text(app, error, words), kUsage);
  }
  return run(app, line);
}

}  // namespace
}  // namespace flight::ctl

int main(int argc, char** argv) {
  // If a standard descriptor is closed, the next file or socket would get its number. Open it read-only, so that
  // writes to it fail.
  for (int fd = ::open("/dev/null", O_RDONLY); fd >= 0; fd = ::open("/dev/null", O_RDONLY))
    if (fd > STDERR_FILENO) {
      ::close(fd);
      break;
    }
  flight::settle_inherited_state(flight::ProgramKind::command);
  try {
    if (const std::string trouble = flight::settle_time_zone(); !trouble.empty())
      std::cerr << "flightctl: " << trouble << '\n';
    return flight::ctl::main_of(argc, argv);
  } catch (const std::exception& error) {  // CLI11's and the standard library's exceptions
    std::cerr << "flightctl: " << error.what() << '\n';
    return flight::ctl::kRefused;
  }
}
