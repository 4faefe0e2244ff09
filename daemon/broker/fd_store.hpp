// SPDX-License-Identifier: Apache-2.0
// The descriptors that systemd stores for the next broker (FileDescriptorStoreMax=, sd_pid_notify_with_fds(3)): every
// event, and a sealed memfd of the manifest. systemd 252 and 257 keep them over kill -9 and `systemctl restart` and
// close them on `stop`. The events record while there is no broker; flightd keeps the rings mapped. No-op when not
// started by systemd.
//
//   name "e1a2b"   the event with that PERF_EVENT_IOC_ID, hexadecimal
//   name "m7"      the manifest; of two, use the one with the greater number: its events were stored before it
//
// Each has a name of its own, because FDSTOREREMOVE= removes all descriptors of a name. FDPOLL=0 with each: PID 1
// polling an event would consume the sideband's wakeups for flightd.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/recorder/recording.hpp"

namespace flight::broker {

// All names go into one environment variable, which execve(2) limits to 128 KiB: the unit's FileDescriptorStoreMax=.
inline constexpr std::size_t kMaxStored = 8192;

class FdStore {
 public:
  // Takes the descriptors passed by systemd ($LISTEN_FDS). Call it before any descriptor is opened. Sockets are in
  // sockets().
  [[nodiscard]] static FdStore take();

  [[nodiscard]] std::vector<UniqueFd>& sockets() { return sockets_; }
  // nullopt: nothing was stored. An error: the stored descriptors cannot be used.
  struct Kept {
    Manifest manifest;
    KeptEvents events;
  };
  // Its descriptors are copies, so that a configuration that cannot be recorded does not end what is stored.
  [[nodiscard]] std::optional<Result<Kept>> kept() const;
  // What systemd did not give back of what an earlier broker stored, the probable reason and what to do, for the end of
  // a sentence; empty: nothing is missing. Since 254 systemd says how many it takes, and keep() warns; before, only
  // this shows it. `kept`: the content of kept().
  [[nodiscard]] std::string missing(const Result<Kept>& kept) const;
  // Something else records now, or what is stored.
  void drop_kept() { taken_.clear(); }

  // Stores exactly these. Call it after every change of the rings or the configuration, and again while incomplete().
  // Waits for PID 1 for half a second at most.
  [[nodiscard]] Result<void> keep(const Recording& recording);
  // The last keep() could not send everything. Until a later keep() succeeds, the next broker uses the previous
  // manifest.
  [[nodiscard]] bool incomplete() const { return incomplete_; }

 private:
  struct Stored {
    std::string name;
    UniqueFd fd;
  };
  [[nodiscard]] Result<void> send(const std::map<std::uint64_t, int>& events, int manifest, EventTime until_ns);
  [[nodiscard]] Result<void> remove_except(const std::set<std::string>& wanted, EventTime until_ns);
  std::vector<UniqueFd> sockets_;
  std::vector<Stored> taken_;    // until drop_kept()
  std::set<std::string> names_;  // the names that are stored now
  std::uint64_t last_manifest_ = 0;
  bool incomplete_ = false;
};

}  // namespace flight::broker
