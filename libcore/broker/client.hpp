// SPDX-License-Identifier: Apache-2.0
// flightd's end of the broker protocol. One thread uses it; replies come in the order of the requests, except for
// files. A 'changed' or a file that arrives between request and reply is kept. An invalid reply, or none within
// kAnswerTimeout, ends the connection, because later replies could not be matched.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/build_ids.hpp"
#include "libcore/broker/kernel_names.hpp"
#include "libcore/broker/messages.hpp"
#include "libcore/broker/protocol.hpp"

namespace flight {

inline constexpr std::chrono::seconds kAnswerTimeout{60};

struct Attachment {
  Manifest manifest;
  std::vector<UniqueFd> owners;  // one for each of manifest.rings
};
struct KernelReply {
  KernelNames names;
  Mapping kallsyms;  // text, if names.kallsyms says that it was sent; in the broker's memory: it is megabytes
};
struct PartialFile {
  UniqueFd fd;
  std::string name;    // in STATE/snapshots
  bool spare = false;  // its group may write, too, so that flightd can close it and open it again
};

class BrokerClient {
 public:
  explicit BrokerClient(UniqueFd socket);
  // SOCK_SEQPACKET at a path (--broker SOCKET).
  [[nodiscard]] static Result<BrokerClient> connect(const std::string& path);

  // Replaces kAnswerTimeout from now on.
  void answer_within(std::chrono::seconds timeout);
  [[nodiscard]] Result<Attachment> attach();
  [[nodiscard]] Result<Mapping> processes();  // perf records
  // The processes whose mappings the last processes() lacks; empty: it is complete.
  [[nodiscard]] const std::string& processes_warning() const { return processes_warning_; }
  [[nodiscard]] Result<KnownFiles> build_ids();
  [[nodiscard]] Result<KernelReply> kernel();
  [[nodiscard]] Result<Counts> counts();
  // Never waits. One file at a time is requested; take_changed() receives it when fd() is readable. EBUSY: the
  // previous request is outstanding.
  [[nodiscard]] Result<void> ask_for_file(bool spare = false);
  [[nodiscard]] std::optional<Result<PartialFile>> take_file();
  [[nodiscard]] Result<PartialFile> file();  // requests a file and waits for it
  [[nodiscard]] Result<void> reload();
  [[nodiscard]] Result<void> disable();
  [[nodiscard]] Result<void> enable();

  // True once for each 'changed' since the last call; never blocks. An error, ECONNRESET or why this
  // client ended the connection: the broker is gone.
  [[nodiscard]] Result<bool> take_changed();
  [[nodiscard]] int fd() const { return socket_.get(); }

 private:
  [[nodiscard]] Result<BrokerMessage> ask(Request request);
  // The next reply to `request`.
  [[nodiscard]] Result<BrokerMessage> answer(Request request);
  [[nodiscard]] Result<BrokerMessage> ask_with_fds(Request request, std::size_t fd_count);
  [[nodiscard]] Result<Attachment> receive_attachment();
  // True: it is an out-of-order message, and is kept.
  bool set_aside(BrokerMessage& message);
  // Ends the connection. take_changed() repeats the reason.
  Failure give_up(Error error);
  UniqueFd socket_;
  bool changed_ = false;
  std::string processes_warning_;
  std::optional<Request> file_asked_;
  std::optional<Result<PartialFile>> file_;
  std::optional<Error> given_up_;
};

}  // namespace flight
