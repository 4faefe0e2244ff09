// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/made_room.hpp"

#include "libcore/base/file_calls.hpp"

namespace flight::daemon {

bool MadeRoom::end(const std::optional<Error>& error) {
  const bool made = made_.exchange(false);
  if (!error) {
    retried_ = in_vain_ = false;
    return false;
  }
  return made && is_full(error->errno_value()) && !in_vain_.exchange(true);
}

}  // namespace flight::daemon
