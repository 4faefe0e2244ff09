// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/unwind_client.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "libcore/base/files.hpp"
#include "libcore/base/unix_socket.hpp"
#include "libcore/unwind/unwind_messages.hpp"

namespace flight {
namespace {

struct SharedMemory {
  UniqueFd fd;
  Mapping mapping;
};

// A memfd of constant size. `seals`: besides.
Result<SharedMemory> share_memory(const char* name, std::size_t bytes, int seals) {
  SharedMemory out;
  auto fd = open_memfd(name);
  if (!fd) return propagate(fd.error());
  out.fd = std::move(*fd);
  if (::ftruncate(out.fd.get(), static_cast<off_t>(bytes)) != 0) return sys_error(errno, "{} of {} bytes", name, bytes);
  auto mapping = Mapping::open(out.fd.get(), bytes, PROT_READ | PROT_WRITE);
  if (!mapping) return wrap(mapping.error(), "{}", name);
  out.mapping = std::move(*mapping);
  out.mapping.leave_out_of_core();
  if (auto locked = out.mapping.lock(); !locked) return wrap(locked.error(), "{}: raise LimitMEMLOCK=", name);
  if (::fcntl(out.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | seals) != 0)
    return sys_error(errno, "seal {}", name);
  return out;
}

void receive_within(int socket, std::chrono::milliseconds limit) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(std::max(limit, std::chrono::milliseconds(1)));
  const timeval time{.tv_sec = us.count() / 1'000'000, .tv_usec = us.count() % 1'000'000};
  static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
}

}  // namespace

Result<UnwindClient> UnwindClient::open(UniqueFd socket, std::size_t batch_bytes, std::uint32_t samples) {
  const std::size_t bytes = std::clamp(batch_bytes, sizeof(BatchHeader), kMaxBatchBytes);
  samples = std::min(samples, kMaxBatchSamples);
  auto batch = share_memory("flightd-stacks", bytes, F_SEAL_FUTURE_WRITE);
  if (!batch) return propagate(batch.error());
  auto answer = share_memory("flightd-chains", most_answer_bytes(samples), 0);
  if (!answer) return propagate(answer.error());
  const std::array fds{batch->fd.get(), answer->fd.get()};
  const UnwindMessage message{
      .kind = UnwindMessageKind::memory, .bytes = bytes, .answer_bytes = most_answer_bytes(samples)};
  if (auto sent = send_unwind_message(socket.get(), message, fds); !sent) return propagate(sent.error());
  return UnwindClient(std::move(socket), std::move(batch->mapping), std::move(answer->mapping), samples);
}

Result<void> UnwindClient::set_table(std::uint32_t number, int fd) {
  return send_unwind_message(socket_.get(), {.kind = UnwindMessageKind::table, .number = number}, std::span(&fd, 1));
}

Result<void> UnwindClient::forget_table(std::uint32_t number) {
  return send_unwind_message(socket_.get(), {.kind = UnwindMessageKind::no_table, .number = number});
}

Result<BatchAnswer> UnwindClient::unwind(BatchWriter& batch, std::uint32_t tables, std::chrono::milliseconds limit) {
  const std::size_t used = batch.finish().size();
  Result<BatchAnswer> answer = fail(std::errc::not_connected, "the unwinder is gone");
  if (batch.samples() > most_samples_) {
    answer = fail(std::errc::invalid_argument, "a batch of {} samples, of {} at most", batch.samples(), most_samples_);
  } else if (socket_) {
    send_within(socket_.get(), limit);
    receive_within(socket_.get(), limit);
    answer = exchange(used, static_cast<std::uint32_t>(batch.samples()), tables);
  }
  ::explicit_bzero(batch_.data(), used);
  if (!answer) socket_.reset();
  return answer;
}

Result<BatchAnswer> UnwindClient::exchange(std::size_t bytes, std::uint32_t samples, std::uint32_t tables) {
  const auto late = [](const Error& error) -> Failure {
    const int number = error.errno_value();
    if (number == EAGAIN) return fail(std::errc::timed_out, "the unwinder did not answer in time");
    return propagate(error);
  };
  const UnwindMessage question{.kind = UnwindMessageKind::unwind, .number = tables, .bytes = bytes};
  if (auto sent = send_unwind_message(socket_.get(), question); !sent) return late(sent.error());
  std::vector<UniqueFd> none;
  const auto reply = receive_unwind_message(socket_.get(), none);
  if (!reply) return late(reply.error());
  if (reply->kind != UnwindMessageKind::answer || !none.empty() || reply->answer_bytes > answer_.size())
    return fail(std::errc::bad_message, "the unwinder's answer is none");
  if (reply->error != 0) return fail(std::errc::bad_message, "the unwinder refused a batch: errno {}", reply->error);
  return BatchAnswer::parse(answer_.bytes().first(static_cast<std::size_t>(reply->answer_bytes)), samples);
}

}  // namespace flight
