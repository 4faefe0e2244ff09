// SPDX-License-Identifier: Apache-2.0
// Whether deleting for keep_free has an effect: other programs may use the space that it frees, or the file system may
// not release it (for example, if it has snapshots of its own). One minute after a deletion, free space is compared: if
// less than half of the deleted bytes became free, nothing more is deleted until free space has grown by itself. The
// bytes that the store itself wrote meanwhile count as freed: a snapshot uses what the vacuum before it has freed.
// Store thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"

namespace flight::daemon {

class KeepFreeWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // A vacuum that deleted something.
  struct Pass {
    std::uint64_t free_before_bytes = 0;                      // of the file system
    std::uint64_t own_before_bytes = 0, own_after_bytes = 0;  // of the store
    std::uint64_t freed_bytes = 0;                            // as counted
    bool for_keep_free = false;                               // some of it
  };
  void deleted(Time now, const Pass& pass);
  // Before may_delete(): keep_free as it is now. If a user has lowered it, nothing waits for more than that.
  void use_limit(std::uint64_t keep_free_bytes);
  // `own_bytes`: what the store uses now.
  [[nodiscard]] bool may_delete(Time now, std::uint64_t free_bytes, std::uint64_t own_bytes);
  // What the next flightd must know, as JSON; empty: nothing. It judges a deletion one minute after its start.
  static constexpr std::size_t kMaxTextBytes = 4096;
  [[nodiscard]] std::string text() const;
  // An error: it is not such a text, and nothing is changed.
  [[nodiscard]] Result<void> restore(std::string_view text, Time now);
  [[nodiscard]] bool waits() const { return futile_below_bytes_.has_value(); }

 private:
  struct Freeing {
    Time at;
    std::int64_t free_before_bytes = 0, counted_bytes = 0;
    std::int64_t written_bytes = 0, own_after_bytes = 0;  // written until the last pass, which left so much
  };
  std::optional<Freeing> freeing_;                   // not judged yet
  std::optional<std::uint64_t> futile_below_bytes_;  // nothing is deleted until so much is free
  std::uint64_t limit_bytes_ = 0;                    // keep_free; 0: not known yet
};

}  // namespace flight::daemon
