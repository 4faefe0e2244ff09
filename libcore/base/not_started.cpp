// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/not_started.hpp"

#include <cerrno>
#include <utility>

namespace flight {

Failure not_started(int error_number, std::string_view process) {
  Error error = sys_error(error_number, "start {}", process).value();
  if (error_number == EAGAIN)  // see fork(2)
    error.what += "; no task is left: raise TasksMax= of the unit, pids.max of the cgroup, or ulimit -u";
  return Failure(std::move(error));
}

}  // namespace flight
