// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/scan/maps_readers.hpp"

namespace flight::broker {

MapsReaders::Answer MapsReaders::begin(std::uint32_t pid, uid_t uid, std::size_t threads,
                                       std::chrono::milliseconds hangs_after) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  if (reads_.contains(pid)) return Answer::no;
  std::size_t of_user = 0, hung = 0, hung_of_user = 0;
  for (const auto& [other, read] : reads_) {
    const bool hangs = now - read.begun >= hangs_after;
    hung += hangs ? 1 : 0;
    if (read.uid != uid) continue;
    ++of_user;
    hung_of_user += hangs ? 1 : 0;
  }
  if (hung_of_user >= most_of(uid, threads) || hung >= most(threads)) return Answer::no;
  if (of_user >= most_of(uid, threads) || reads_.size() >= most(threads)) return Answer::later;
  reads_.emplace(pid, Read{.uid = uid, .begun = now});
  return Answer::yes;
}

void MapsReaders::end(std::uint32_t pid) {
  const std::lock_guard lock(mutex_);
  reads_.erase(pid);
}

std::size_t MapsReaders::count() const {
  const std::lock_guard lock(mutex_);
  return reads_.size();
}

}  // namespace flight::broker
