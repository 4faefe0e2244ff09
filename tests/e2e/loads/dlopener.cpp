// SPDX-License-Identifier: Apache-2.0
// Burns in its own code, then loads a library and burns in that.
#include <dlfcn.h>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_before_dlopen() { flight::load::spin(flight::load::kWorkRounds); }

int main(int argc, char** argv) {
  if (argc < 5) flight::load::usage("dlopener CPU SECONDS LIBRARY SECONDS_IN_IT");
  flight::load::stay_on(atoi(argv[1]));
  flight::load::report("started");
  flight::load::repeat_for(atof(argv[2]), hot_before_dlopen);
  void* library = dlopen(argv[3], RTLD_NOW);
  void* work = library != nullptr ? dlsym(library, "hot_in_late_library") : nullptr;
  if (work == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  flight::load::repeat_for(atof(argv[4]), reinterpret_cast<void (*)()>(work));
  flight::load::report("ended");
}
