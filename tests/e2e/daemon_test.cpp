// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/daemon_test.hpp"

#include <filesystem>

namespace flight {

std::vector<std::string> DaemonTest::files(std::string_view part) const {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(daemon_.snapshots_dir()))
    if (std::string name = entry.path().filename(); name.find(part) != std::string::npos)
      found.push_back(std::move(name));
  return found;
}

Arguments DaemonTest::own_user_command(const Arguments& arguments) const {
  Arguments command = {"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"};
  for (const std::string& word : daemon_.ctl_command(arguments)) command.push_back(word);
  return command;
}

}  // namespace flight
