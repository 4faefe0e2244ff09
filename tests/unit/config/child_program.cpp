// SPDX-License-Identifier: Apache-2.0
// A program that reads the configuration for another one, as flightd and flightd-broker do. With --silent it says what
// it looks at, and does no more; with --hangs-at-links only if that is a link, as if it led to a server that hangs;
// with --endless it finds one file after the other.
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include "libcore/base/files.hpp"
#include "libcore/config/config_child.hpp"
#include "libcore/config/gathered.hpp"

namespace {

// FILE, and what another process hangs at: PATH and its identity. To that it comes, too, once there is FILE.ends.
int hang_at_links(int argc, char** argv) {
  const std::string file = argv[2];
  if (!std::filesystem::is_symlink(file)) {
    std::string option(flight::kReadConfigOption);
    std::array<char*, 4> words{argv[0], option.data(), argv[2], nullptr};
    flight::run_config_child(3, words.data());
    return 2;
  }
  const std::string as = flight::entry_identity(file);
  if (argc == 5 && argv[3] == file && argv[4] == as) return flight::kConfigChildSame;
  if (!flight::write_all(STDOUT_FILENO, flight::Gathered::begins(flight::Look::text, file, as))) return 1;
  while (argc != 5 || !std::filesystem::exists(file + ".ends"))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return flight::kConfigChildSame;
}

}  // namespace

int main(int argc, char** argv) {
  flight::run_config_child(argc, argv);
  if (argc >= 3 && argv[1] == std::string_view("--hangs-at-links")) return hang_at_links(argc, argv);
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
