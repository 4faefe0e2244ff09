// SPDX-License-Identifier: Apache-2.0
// A hostile process makes cgroups below DIRECTORY as fast as it can, with names like that of a unit, or of anything,
// burns a moment in each and removes it; meanwhile it gives itself the names of others. It leaves none of them.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <array>
#include <random>
#include <string>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_in_maker() { flight::load::spin(100'000); }

namespace {

bool enter(const std::string& cgroup) {
  const int fd = open((cgroup + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
  const bool done = fd >= 0 && write(fd, "0", 1) == 1;
  if (fd >= 0) close(fd);
  return done;
}

// A variant of `unit`, with other or more bytes. Neither '/' nor a newline.
std::string like(const std::string& unit, unsigned number, std::mt19937& random) {
  std::string name = unit;
  switch (number % 5) {
    case 0:
      return name;
    case 1:
      return name + std::to_string(number) + ".service";
    case 2:
      name[number % (name.size() - 8)] = static_cast<char>(0x80 + random() % 0x80);
      return name;
    case 3:
      return " " + name + std::string(1, static_cast<char>(1 + random() % 8)) + ".service";
    default:
      return "docker-" + std::string(52, 'f') + std::to_string(100'000'000'000 + number) + ".scope";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) flight::load::usage("cgroup_maker CPU SECONDS DIRECTORY UNIT COMM");
  flight::load::stay_on(atoi(argv[1]));
  const std::string folder = argv[3], unit = argv[4];
  std::mt19937 random(7);
  const std::uint64_t end = flight::load::now_ns() + static_cast<std::uint64_t>(atof(argv[2]) * 1e9);
  flight::load::report("started");
  unsigned made = 0;
  for (unsigned number = 0; flight::load::now_ns() < end; ++number) {
    const std::string cgroup = folder + "/" + like(unit, number, random);
    if (mkdir(cgroup.c_str(), 0755) != 0 || !enter(cgroup)) {
      perror(cgroup.c_str());
      rmdir(cgroup.c_str());
      break;
    }
    ++made;
    std::array<char, 16> any{};
    for (std::size_t i = 0; i + 1 < any.size(); ++i) any[i] = static_cast<char>(1 + random() % 255);
    prctl(PR_SET_NAME, number % 2 == 0 ? argv[5] : any.data());
    hot_in_maker();
    if (!enter(folder) || rmdir(cgroup.c_str()) != 0) {
      perror(cgroup.c_str());
      break;
    }
  }
  printf("made %u\n", made);
  flight::load::report("ended");
}
