// SPDX-License-Identifier: Apache-2.0
// flightd's end of the wall. Used by one thread (the recorder thread); requests are answered in order, but for a file,
// which comes when its disk has made it. A 'changed' or a file that arrives between request and reply is remembered. An
// answer that cannot be understood, or does not come within kAnswerTimeout, ends the connection: later answers could no
// longer be told apart.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/broker/wall.hpp"

namespace flight {

inline constexpr std::chrono::seconds kAnswerTimeout{60};

struct Attachment {
  Manifest manifest;
  std::vector<UniqueFd> owners;  // one for each of manifest.rings
  std::string kallsyms;          // text; empty where the broker could not read it
};
struct PartialFile {
  UniqueFd fd;
  std::string name;    // in STATE/snapshots
  bool spare = false;  // its group may write, too: flightd can close it and open it again
};

class BrokerClient {
 public:
  explicit BrokerClient(UniqueFd socket);
  // SOCK_SEQPACKET at a path (--broker SOCKET).
  [[nodiscard]] static Result<BrokerClient> connect(const std::string& path);

  // Another limit than kAnswerTimeout, from now on.
  void answer_within(std::chrono::seconds timeout);
  [[nodiscard]] Result<Attachment> attach();
  [[nodiscard]] Result<std::string> processes();  // perf records
  [[nodiscard]] Result<Counts> counts();
  // Waits for nothing: one file at a time is asked for, and taken when it is there (fd() is readable, take_changed()
  // then receives it). EBUSY: the one before is still under way.
  [[nodiscard]] Result<void> ask_for_file(bool spare = false);
  [[nodiscard]] std::optional<Result<PartialFile>> take_file();
  [[nodiscard]] Result<PartialFile> file();  // both, and waits
  [[nodiscard]] Result<void> reload();
  [[nodiscard]] Result<void> disable();
  [[nodiscard]] Result<void> enable();

  // True once for each 'changed' since the last call; never blocks. ECONNRESET: the broker is gone.
  [[nodiscard]] Result<bool> take_changed();
  [[nodiscard]] int fd() const { return socket_.get(); }

 private:
  [[nodiscard]] Result<WallMessage> ask(Request request);
  // The next message that answers `request`.
  [[nodiscard]] Result<WallMessage> answer(Request request);
  [[nodiscard]] Result<WallMessage> ask_with_fds(Request request, std::size_t fd_count);
  [[nodiscard]] Result<Attachment> receive_attachment();
  // True: it is one that comes when it will, and is kept.
  bool set_aside(WallMessage& message);
  Failure give_up(Error error) const;
  UniqueFd socket_;
  bool changed_ = false;
  std::optional<Request> file_asked_;
  std::optional<Result<PartialFile>> file_;
};

}  // namespace flight
