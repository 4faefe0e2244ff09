// SPDX-License-Identifier: Apache-2.0
// The unwinder's process: answers batches until flightd closes the socket. It opens nothing: memory and tables come as
// descriptors (unwind_messages.hpp). A message that it does not understand ends it; flightd then starts another one.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/unwind/batch_unwinder.hpp"
#include "libcore/unwind/table_cache.hpp"
#include "libcore/unwind/unwind_messages.hpp"

namespace flight {

class UnwindService {
 public:
  // One thread. Success: the other side has closed it. EBADMSG: it has sent something else.
  [[nodiscard]] Result<void> serve(int socket);

 private:
  [[nodiscard]] Result<void> take(int socket, const UnwindMessage& message, std::vector<UniqueFd>& fds);
  [[nodiscard]] Result<void> take_memory(const UnwindMessage& message, const std::vector<UniqueFd>& fds);
  [[nodiscard]] Result<void> take_table(const UnwindMessage& message, const std::vector<UniqueFd>& fds);
  [[nodiscard]] Result<void> answer(int socket, const UnwindMessage& message);

  Mapping batch_, answer_;
  std::vector<std::optional<CachedTable>> tables_;  // by number
  BatchUnwinder unwinder_;
};

}  // namespace flight
