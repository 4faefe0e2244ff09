// SPDX-License-Identifier: Apache-2.0
// One thread of another name burns, while the main thread waits.
#include <pthread.h>

#include <thread>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_in_thread() { flight::load::spin(flight::load::kWorkRounds); }

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("threader CPU SECONDS");
  flight::load::stay_on(atoi(argv[1]));
  flight::load::report("started");
  double seconds = atof(argv[2]);
  std::thread worker([seconds] {
    pthread_setname_np(pthread_self(), "hot-thread");
    flight::load::repeat_for(seconds, hot_in_thread);
  });
  worker.join();
  flight::load::report("ended");
}
