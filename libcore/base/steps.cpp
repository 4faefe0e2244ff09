// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/steps.hpp"

#ifdef FLIGHT_STEPS
#include <csignal>
#include <cstdlib>
#endif

namespace flight {

#ifdef FLIGHT_STEPS
void after_step(Step step) {
  const char* wanted = std::getenv("FLIGHT_STOP_AFTER");
  if (wanted != nullptr && kStepNames.at(static_cast<std::size_t>(step)) == wanted) std::raise(SIGSTOP);
}
#else
void after_step(Step /*step*/) {}
#endif

}  // namespace flight
