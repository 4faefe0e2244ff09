// SPDX-License-Identifier: Apache-2.0
// flightd's end of the connection to the unwinder: a bounded call, batch in, chains out. It owns the memory in which
// copies of stacks are shared: locked, left out of core dumps, writable by nobody else, and wiped after each call,
// whatever came of it. After an error it is of no use any more: another unwinder gets another client.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/unwind/batch_answer.hpp"
#include "libcore/unwind/batch_writer.hpp"

namespace flight {

class UnwindClient {
 public:
  // `batch_bytes`: of the memory for batches; `samples`: at most so many in one. ENOMEM, EPERM: it cannot be locked, so
  // no copy of a stack may get there.
  [[nodiscard]] static Result<UnwindClient> open(UniqueFd socket, std::size_t batch_bytes, std::uint32_t samples);

  // For a BatchWriter.
  [[nodiscard]] std::span<std::byte> memory() const { return batch_.bytes(); }
  // `fd`: a file of the cache of tables. `number`: as in BatchMapping::table.
  [[nodiscard]] Result<void> set_table(std::uint32_t number, int fd);
  [[nodiscard]] Result<void> forget_table(std::uint32_t number);
  // `batch`: of memory(). `tables`: as it was made with. Waits at most `limit`. ETIMEDOUT: no answer came. EPIPE,
  // ENOTCONN: the unwinder is gone. EBADMSG: it answered nonsense, or refused the batch.
  [[nodiscard]] Result<BatchAnswer> unwind(BatchWriter& batch, std::uint32_t tables, std::chrono::milliseconds limit);
  [[nodiscard]] bool is_usable() const { return static_cast<bool>(socket_); }

 private:
  UnwindClient(UniqueFd socket, Mapping batch, Mapping answer, std::uint32_t samples)
      : socket_(std::move(socket)), batch_(std::move(batch)), answer_(std::move(answer)), most_samples_(samples) {}
  [[nodiscard]] Result<BatchAnswer> exchange(std::size_t bytes, std::uint32_t samples, std::uint32_t tables);

  UniqueFd socket_;
  Mapping batch_, answer_;
  std::uint32_t most_samples_;
};

}  // namespace flight
