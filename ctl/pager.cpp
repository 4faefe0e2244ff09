// SPDX-License-Identifier: Apache-2.0
#include "ctl/pager.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "libcore/base/text.hpp"

namespace flight::ctl {
namespace {

// With one of these, the first word need not be the program.
constexpr std::string_view kShellCharacters = "\"'\\$`|&;<>()*?[]#~!{}\n";
constexpr std::array<std::string_view, 2> kShellCommands{"exec", "command"};

// The first word that is no assignment ("LESS=-R less"); empty: there is none.
std::string_view pager_program(std::string_view command) {
  for (;;) {
    command.remove_prefix(std::min(command.find_first_not_of(" \t"), command.size()));
    const std::string_view word = command.substr(0, command.find_first_of(" \t"));
    if (word.find('=') == std::string_view::npos) return word;
    command.remove_prefix(word.size());
  }
}

bool can_be_run(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// As a shell finds it.
bool is_found(std::string_view program) {
  if (program.find('/') != std::string_view::npos) return can_be_run(std::string(program));
  const char* const path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "/usr/bin:/bin";
  for (;;) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::string_view folder = end == 0 ? std::string_view(".") : folders.substr(0, end);
    if (can_be_run(fmt::format("{}/{}", folder, program))) return true;
    if (end == folders.size()) return false;
    folders.remove_prefix(end + 1);
  }
}

}  // namespace

std::string missing_pager() {
  const char* const of_perf = std::getenv("PERF_PAGER");
  const char* const of_all = std::getenv("PAGER");
  const char* const value = of_perf != nullptr ? of_perf : of_all;
  if (value == nullptr) return {};
  const std::string_view command = value;
  if (command.find_first_of(kShellCharacters) != std::string_view::npos) return {};
  const std::string_view program = pager_program(command);
  if (program.empty() || is_found(program) ||
      std::find(kShellCommands.begin(), kShellCommands.end(), program) != kShellCommands.end())
    return {};
  return fmt::format("${} is '{}', and there is no program '{}'", of_perf != nullptr ? "PERF_PAGER" : "PAGER",
                     printable(command), printable(program));
}

}  // namespace flight::ctl
