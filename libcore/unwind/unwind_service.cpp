// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/unwind_service.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>

namespace flight {
namespace {

Failure bad_message(std::string_view why) {
  return fail(std::errc::bad_message, "flightd's message about stacks: {}", why);
}

// Whether all of it can be read for as long as it is mapped.
bool has_constant_size(int fd, std::uint64_t bytes) {
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
  struct stat status {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kNeeded) == kNeeded && ::fstat(fd, &status) == 0 &&
         static_cast<std::uint64_t>(status.st_size) == bytes;
}

}  // namespace

Result<void> UnwindService::serve(int socket) {
  std::vector<UniqueFd> fds;
  for (;;) {
    const auto message = receive_unwind_message(socket, fds);
    const int error = message ? 0 : message.error().errno_value();
    if (error == ENOTCONN || error == ECONNRESET) return {};
    if (!message) return propagate(message.error());
    if (auto taken = take(socket, *message, fds); !taken) return taken;
  }
}

Result<void> UnwindService::take(int socket, const UnwindMessage& message, std::vector<UniqueFd>& fds) {
  switch (message.kind) {
    case UnwindMessageKind::memory:
      return take_memory(message, fds);
    case UnwindMessageKind::table:
      return take_table(message, fds);
    case UnwindMessageKind::no_table:
      if (message.number < tables_.size()) tables_[message.number].reset();
      return {};
    case UnwindMessageKind::unwind:
      return answer(socket, message);
    case UnwindMessageKind::answer:
      break;
  }
  return bad_message("its kind is unknown");
}

Result<void> UnwindService::take_memory(const UnwindMessage& message, const std::vector<UniqueFd>& fds) {
  if (fds.size() != 2 || message.bytes < sizeof(BatchHeader) || message.bytes > kMaxBatchBytes ||
      message.answer_bytes < sizeof(AnswerHeader) || message.answer_bytes > most_answer_bytes(kMaxBatchSamples) ||
      !has_constant_size(fds[0].get(), message.bytes) || !has_constant_size(fds[1].get(), message.answer_bytes))
    return bad_message("the memory for batches");
  auto batch = Mapping::open(fds[0].get(), static_cast<std::size_t>(message.bytes), PROT_READ);
  if (!batch) return wrap(batch.error(), "the memory for batches");
  auto answers = Mapping::open(fds[1].get(), static_cast<std::size_t>(message.answer_bytes), PROT_READ | PROT_WRITE);
  if (!answers) return wrap(answers.error(), "the memory for answers");
  batch->leave_out_of_core();  // of each process that maps it
  answers->leave_out_of_core();
  batch_ = std::move(*batch);
  answer_ = std::move(*answers);
  return {};
}

// A file that is no table is as good as none: its samples get the status no_file.
Result<void> UnwindService::take_table(const UnwindMessage& message, const std::vector<UniqueFd>& fds) {
  if (fds.size() != 1 || message.number >= kMaxBatchTables) return bad_message("a table");
  if (message.number >= tables_.size()) tables_.resize(std::size_t{message.number} + 1);
  std::optional<CachedTable>& place = tables_[message.number];
  place.reset();
  if (auto table = CachedTable::open(fds[0].get())) place.emplace(std::move(*table));
  return {};
}

Result<void> UnwindService::answer(int socket, const UnwindMessage& message) {
  if (message.bytes > batch_.size() || message.number > kMaxBatchTables) return bad_message("a batch");
  std::vector<const UnwindTable*> tables(message.number, nullptr);
  for (std::size_t i = 0; i < tables.size() && i < tables_.size(); ++i)
    if (tables_[i]) tables[i] = &tables_[i]->table();
  const auto bytes =
      unwinder_.unwind(batch_.bytes().first(static_cast<std::size_t>(message.bytes)), tables, answer_.bytes());
  UnwindMessage reply{.kind = UnwindMessageKind::answer};
  if (bytes)
    reply.answer_bytes = *bytes;
  else
    reply.error = bytes.error().errno_value();
  auto sent = send_unwind_message(socket, reply);
  if (!sent && sent.error().errno_value() == EPIPE) return {};  // the next receive says so, too
  return sent;
}

}  // namespace flight
