// SPDX-License-Identifier: Apache-2.0
// Reads the configuration in another process. Its files may lie on a file system that waits for a server (NFS, FUSE): a
// task that waits there may ignore SIGKILL, and its whole process with it. So neither flightd nor flightd-broker opens
// them, except with no task left; what hangs is left behind (docs/decisions/0018).
//
// One reading at a time, and at most kMostLeft processes that were left behind. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/unique_fd.hpp"
#include "libcore/config/gathered.hpp"
#include "libcore/config/parse.hpp"

namespace flight {

class ConfigReader {
 public:
  // A service whose start takes longer reports that it waits. A start by hand reports to no service manager.
  static constexpr std::chrono::milliseconds kSoon{800};
  static constexpr std::chrono::milliseconds kByHand{10'000};
  // The time that a process may need to begin: the machine may be busy.
  static constexpr std::chrono::milliseconds kToBegin{3'000};

  // `file`: of --config; empty: the default directories. `command`: config_child_command(). Without one, the files are
  // read on the calling thread, as a program may that ends anyway.
  explicit ConfigReader(std::string file, std::vector<std::string> command = {});
  ConfigReader(const ConfigReader&) = delete;
  ConfigReader& operator=(const ConfigReader&) = delete;
  ~ConfigReader();  // its process is killed, or left behind

  // Begins to read, unless a reading is under way, which goes on.
  void begin();
  // The reading under way is late: another process reads everything again, and ends when it reaches the entry that the
  // first one waits for. So a file that replaced a link to a server that hangs is found, and no second process is left
  // behind while the link is still there. Call it now and then.
  void look_again();
  [[nodiscard]] bool busy() const { return child_.has_value(); }
  // The reading has taken `limit`, from the time at which its process began to look, for which it has kToBegin.
  [[nodiscard]] bool is_late(std::chrono::milliseconds limit = kSoon) const {
    return child_ && Clock::now() >= due(child_->begun, limit);
  }
  // Readable when take() can go on; -1: no reading is under way. After look_again() it is that of the other process
  // until this ends: call take() now and then, too.
  [[nodiscard]] int fd() const { return again_ ? again_->socket.get() : child_ ? child_->socket.get() : -1; }
  // The result of the reading, once; nullopt: not yet. It may be as old as the beginning of the reading. Waits only for
  // the end of a process that has answered, 50 ms at most.
  [[nodiscard]] std::optional<ConfigResult<Config>> take();
  // begin() and take(); waits for the result until is_late(limit), counted from this call on. Then the error is
  // silence(), and the reading goes on: a later call may get its result. `stop_fd`: if it is readable, nobody needs the
  // result any more; -1: none.
  [[nodiscard]] ConfigResult<Config> read(std::chrono::milliseconds limit, int stop_fd = -1);
  // Its result would be too old: what is written from now on must be in the next one.
  void drop();

  // Why there is no result yet.
  [[nodiscard]] ConfigError silence() const;
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    pid_t pid = -1;
    UniqueFd socket;
    std::shared_ptr<Gathered> gathered;
    Clock::time_point begun;
    std::optional<Clock::time_point> looks_since;  // nullopt: it has not begun to look
  };
  struct Left {
    pid_t pid = -1;
    std::shared_ptr<Gathered> hung;  // at(): what it waits for; null: it had no time to answer, or it did
  };
  static constexpr std::size_t kMostLeft = 4;

  void start();
  [[nodiscard]] Result<Child> start_child(const std::vector<std::string>& hung = {});
  // When a request that was made at `asked` has waited for `limit`.
  [[nodiscard]] Clock::time_point due(Clock::time_point asked, std::chrono::milliseconds limit) const;
  // The result of the process, if it has sent everything or has ended.
  [[nodiscard]] std::optional<ConfigResult<Config>> receive(std::optional<Child>& child);
  void receive_again();
  std::optional<int> leave(std::optional<Child>& child, bool hangs);
  void reap();
  [[nodiscard]] ConfigError how_it_ended(std::optional<Child>& child);
  [[nodiscard]] ConfigResult<Config> load(const LookUp& look) const;

  const std::string file_;
  const std::vector<std::string> command_;
  std::optional<Child> child_;
  std::optional<Child> again_;  // of look_again(), while child_ hangs
  std::vector<Left> left_;      // that were not seen to end; at most kMostLeft
  std::optional<ConfigResult<Config>> result_;
  bool near_ = false;          // the last reading asked no server
  bool reached_same_ = false;  // the process that ended last had reached the entry that an earlier one waits for
};

}  // namespace flight
