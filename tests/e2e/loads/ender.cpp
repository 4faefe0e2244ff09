// SPDX-License-Identifier: Apache-2.0
// Starts threads that end at once, and whose numbers the kernel releases as they end: nobody joins them.
#include <pthread.h>

#include <system_error>
#include <thread>

#include "tests/e2e/loads/load.hpp"

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("ender CPU SECONDS");
  flight::load::stay_on(atoi(argv[1]));
  flight::load::report("started");
  flight::load::repeat_for(atof(argv[2]), [] {
    try {
      std::thread([] {}).detach();
    } catch (const std::system_error&) {
      usleep(1000);  // too many at once
    }
  });
  flight::load::report("ended");
}
