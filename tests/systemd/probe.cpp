// SPDX-License-Identifier: Apache-2.0
// Started instead of a unit's program, with the unit's own settings (sandbox-in-guest): attempts what each of them
// forbids.
//
//   probe KEY=VALUE...    the settings, as in the unit
//
// One line for each on stdout, `ok KEY` or `not ok KEY: what was possible`; an unknown setting is not ok. The
// environment has the values that a working restriction changes: $PROBE_MARKERS, paths of files that must not be
// visible; $PROBE_NET, $PROBE_IPC, $PROBE_MNT, the machine's namespaces. Exit: 0 if all are in force. It makes only
// system calls of the broker's filter, except to see others refused.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tests/systemd/attempts.hpp"

int main(int argc, char** argv) {
  // A list is extended by each line, and an empty line resets it, as in systemd.exec(5).
  std::vector<std::string> order;
  std::map<std::string, std::string> settings;
  for (int i = 1; i < argc; ++i) {
    const std::string line = argv[i];
    const std::string key = line.substr(0, line.find('=')), value = line.substr(key.size() + 1);
    if (settings.count(key) == 0) order.push_back(key);
    std::string& held = settings[key];
    held = value.empty() || held.empty() ? value : held + " " + value;
  }
  int bad = 0;
  for (const std::string& key : order) {
    const auto attempt = probe::attempts().find(key);
    const probe::Wrong wrong =
        attempt == probe::attempts().end() ? "no attempt is defined for this setting" : attempt->second(settings[key]);
    if (wrong.empty()) {
      std::printf("ok %s\n", key.c_str());
    } else {
      std::printf("not ok %s: %s\n", key.c_str(), wrong.c_str());
      bad = 1;
    }
    std::fflush(stdout);
  }
  return bad;
}
