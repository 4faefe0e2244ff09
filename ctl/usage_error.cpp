// SPDX-License-Identifier: Apache-2.0
#include "ctl/usage_error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/nearest_word.hpp"
#include "libcore/base/text.hpp"

namespace flight::ctl {
namespace {

using Words = std::span<char* const>;

// Names that other programs use for our commands.
constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kOtherNames{{
    {"ls", "list"},       {"history", "list"},      {"take", "snapshot"}, {"dump", "snapshot"}, {"save", "snapshot"},
    {"describe", "info"}, {"cat", "info"},          {"copy", "get"},      {"cp", "get"},        {"fetch", "get"},
    {"download", "get"},  {"open", "report"},       {"perf", "report"},   {"delete", "remove"}, {"del", "remove"},
    {"check", "doctor"},  {"prune", "vacuum"},      {"clean", "vacuum"},  {"watch", "monitor"}, {"stop", "pause"},
    {"start", "resume"},  {"version", "--version"},
}};

struct Fault {
  std::size_t place = 0;  // of its word; words.size(): it is not in a single word
  std::string text;
  std::string command;  // whose --help explains it
};

// The commands that were given, `app` first, the place of the name of each, and which words belong to an option.
struct Given {
  std::vector<CLI::App*> commands;
  std::vector<std::size_t> places;
  std::vector<bool> taken;  // of each word: it is a command, an option, or an option's value

  // The command line up to `place`: "flightctl triggers".
  [[nodiscard]] std::string before(std::size_t place) const {
    std::string out;
    for (std::size_t i = 0; i < commands.size() && places[i] <= place; ++i)
      out += (i == 0 ? "" : " ") + commands[i]->get_name();
    return out;
  }
  // The last command whose name stands before `place`.
  [[nodiscard]] std::size_t last_before(std::size_t place) const {
    std::size_t out = 0;
    while (out + 1 < commands.size() && places[out + 1] < place) ++out;
    return out;
  }
};

bool gives(std::string_view word, const CLI::Option& option) {
  for (const std::string& name : option.get_lnames())
    if (word == "--" + name || word.starts_with("--" + name + "=")) return true;
  if (word.starts_with("--")) return false;
  const auto& names = option.get_snames();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return word.starts_with("-" + name); });
}

// The option of one of `commands` that the word gives; nullptr: none.
const CLI::Option* option_of(const std::vector<CLI::App*>& commands, std::string_view word) {
  for (CLI::App* command : commands)
    for (const CLI::Option* option : command->get_options())
      if (gives(word, *option)) return option;
  return nullptr;
}

// Whether the option's value is the word behind this one.
bool value_follows(std::string_view word, const CLI::Option& option) {
  const bool takes_value = option.get_items_expected_max() > 0;
  return takes_value && word.find('=') == std::string_view::npos && (word.starts_with("--") || word.size() == 2);
}

Given given_commands(CLI::App& app, Words words) {
  Given out{.commands = {&app}, .places = {0}, .taken = std::vector<bool>(words.size(), false)};
  bool options_end = false;  // behind "--"
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const auto below = out.commands.back()->get_subcommands();
    if (!below.empty() && below.front()->check_name(words[i])) {
      out.commands.push_back(below.front());
      out.places.push_back(i);
      out.taken[i] = true;
    } else if (!options_end && word == "--") {
      options_end = out.taken[i] = true;
    } else if (!options_end && word.starts_with('-')) {
      const CLI::Option* option = option_of(out.commands, word);
      out.taken[i] = option != nullptr;
      if (option != nullptr && value_follows(word, *option) && i + 1 < words.size()) out.taken[++i] = true;
    }
  }
  return out;
}

// The place of the first such word that is not taken.
std::size_t word_at(Words words, const std::vector<bool>& taken, const std::string& word) {
  for (std::size_t i = 1; i < words.size(); ++i)
    if (!taken[i] && word == words[i]) return i;
  return words.size();
}

std::size_t typed_at(const CLI::Option& option, const std::string& value, Words words, const Given& given) {
  if (option.get_lnames().empty() && option.get_snames().empty()) return word_at(words, given.taken, value);
  const auto found = std::find_if(words.begin() + 1, words.end(), [&](const char* one) { return gives(one, option); });
  return static_cast<std::size_t>(found - words.begin());
}

// Also with the arguments that the commands have accepted.
std::vector<bool> taken_with_arguments(Words words, const Given& given) {
  std::vector<bool> out = given.taken;
  for (const CLI::App* command : given.commands)
    for (const CLI::Option* option : command->get_options())
      if (option->get_lnames().empty() && option->get_snames().empty())
        for (const std::string& value : option->results())
          if (const std::size_t place = word_at(words, out, value); place < words.size()) out[place] = true;
  return out;
}

// The complaint of the option's check about a value; empty: it has none.
std::string complaint_of(CLI::Option& option, std::string value) {
  try {
    return (*option.get_validator())(value);
  } catch (const CLI::OptionNotFound&) {
    return "";  // it has no check
  }
}

void add_wrong_values(CLI::App& command, const std::string& name, Words words, const Given& given,
                      std::vector<Fault>& faults) {
  for (CLI::Option* option : command.get_options())
    for (const std::string& value : option->results())
      if (const std::string wrong = complaint_of(*option, value); !wrong.empty()) {
        faults.push_back({.place = typed_at(*option, value, words, given),
                          .text = fmt::format("{}: {}", option->get_name(), wrong),
                          .command = name});
        break;
      }
}

// The commands, as they are typed, that have this option; at most three.
std::vector<std::string> owners_of(CLI::App& app, std::string_view word) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> out;
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    const auto options = command->get_options();
    const bool has =
        std::any_of(options.begin(), options.end(), [&](const CLI::Option* one) { return gives(word, *one); });
    if (has && out.size() < kMost) out.push_back(fmt::format("`flightctl {}`", command->get_name()));
  }
  return out;
}

std::string unknown_text(CLI::App& app, const Given& given, std::size_t last, const std::vector<std::string>& unknown) {
  const std::string_view word = std::string_view(unknown.front()).substr(0, unknown.front().find('='));
  const bool is_option = word.starts_with("-") && word.size() > 1;
  if (is_option && last > 0 && given.commands[last]->get_name() == "report")
    return fmt::format(
        "there is no option '{0}': options of perf come after the ID, as in `flightctl report latest {0}`",
        printable(word));
  if (is_option && word.starts_with("--")) {
    const auto owners = owners_of(app, word);
    if (!owners.empty())
      return fmt::format("there is no option '{}' here: {} {} it", printable(word), fmt::join(owners, ", "),
                         owners.size() == 1 ? "has" : "have");
  }
  const auto other =
      std::find_if(kOtherNames.begin(), kOtherNames.end(), [&](const auto& one) { return one.first == word; });
  if (last == 0 && other != kOtherNames.end())
    return fmt::format("there is no command '{}': did you mean '{}'?", word, other->second);
  std::vector<std::string> options, commands;
  for (std::size_t i = 0; i <= last; ++i)
    for (const CLI::Option* option : given.commands[i]->get_options())
      for (const auto* names : {&option->get_lnames(), &option->get_snames()})
        for (const std::string& name : *names) options.push_back((names->front().size() > 1 ? "--" : "-") + name);
  CLI::App& command = *given.commands[last];
  for (CLI::App* below : command.get_subcommands([](CLI::App*) { return true; })) {
    commands.push_back(below->get_name());
    commands.insert(commands.end(), below->get_aliases().begin(), below->get_aliases().end());
  }
  return unknown_words(unknown, options, commands, last == 0 ? "" : command.get_name());
}

void add_unknown(CLI::App& app, const Given& given, Words words, std::vector<Fault>& faults) {
  std::vector<std::string> unknown = app.remaining(true);
  std::erase(unknown, "--");  // the end of the options is none
  if (unknown.empty()) return;
  const std::vector<bool> taken = taken_with_arguments(words, given);
  std::stable_sort(unknown.begin(), unknown.end(), [&](const std::string& a, const std::string& b) {
    return word_at(words, taken, a) < word_at(words, taken, b);
  });
  const std::size_t place = word_at(words, taken, unknown.front());
  faults.push_back({.place = place,
                    .text = unknown_text(app, given, given.last_before(place), unknown),
                    .command = given.before(place)});
}

}  // namespace

std::string usage_error_text(CLI::App& app, const CLI::ParseError& error, std::span<char* const> words) {
  const Given given = given_commands(app, words);
  std::vector<Fault> faults;
  add_unknown(app, given, words, faults);
  const std::string whole = given.before(words.size());
  for (CLI::App* command : given.commands) add_wrong_values(*command, whole, words, given, faults);
  faults.push_back({.place = words.size(), .text = usage_text(error.what()), .command = whole});
  const auto first =
      std::min_element(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) { return a.place < b.place; });
  return with_help(first->text, first->command);
}

}  // namespace flight::ctl
