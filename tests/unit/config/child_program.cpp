// SPDX-License-Identifier: Apache-2.0
// A program that reads the configuration for another one, as flightd and flightd-broker do. With --silent it says what
// it looks at, and does no more; with --endless it finds one file after the other.
#include <unistd.h>

#include <string>
#include <string_view>

#include "libcore/base/files.hpp"
#include "libcore/config/config_child.hpp"
#include "libcore/config/gathered.hpp"

int main(int argc, char** argv) {
  flight::run_config_child(argc, argv);
  if (argc != 3) return 2;
  if (argv[1] == std::string_view("--endless"))
    for (int i = 0;; ++i)
      if (!flight::write_all(STDOUT_FILENO, flight::Gathered::found(flight::Look::text, std::to_string(i),
                                                                    std::string(std::size_t{1} << 20U, ' '))))
        return 1;
  if (argv[1] != std::string_view("--silent")) return 2;
  if (!flight::write_all(STDOUT_FILENO, flight::Gathered::begins(flight::Look::text, argv[2]))) return 1;
  ::pause();
}
