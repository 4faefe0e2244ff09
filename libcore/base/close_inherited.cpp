// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/close_inherited.hpp"

#include <unistd.h>

namespace flight {

// closefrom(3) of glibc falls back to /proc/self/fd. Where that is missing, too, it ends the process with a message.
void close_inherited(int first, int kept) {
  if (kept < first) {
    ::closefrom(first);
    return;
  }
  for (int fd = first; fd < kept; ++fd) ::close(fd);
  ::closefrom(kept + 1);
}

}  // namespace flight
