// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/spare_descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <mutex>

namespace flight {
namespace {

int open_spare() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

std::mutex spares_mutex;  // guards the following, and the content of what it points to
SpareDescriptors* kept_spares = nullptr;

}  // namespace

thread_local int SpareDescriptors::Use::depth_ = 0;

SpareDescriptors::SpareDescriptors() {
  const std::lock_guard lock(spares_mutex);
  kept_spares = this;
}

SpareDescriptors::~SpareDescriptors() {
  const std::lock_guard lock(spares_mutex);
  if (kept_spares == this) kept_spares = nullptr;
}

bool SpareDescriptors::take() {
  const std::lock_guard lock(spares_mutex);
  files_.reserve(kMany);
  numbers_.reserve(kMany);
  while (files_.size() < kMany) {
    UniqueFd fd(open_spare());
    if (!fd) return false;
    files_.push_back(std::move(fd));
  }
  while (numbers_.size() < kMany) {
    UniqueFd fd(numbers_.empty() ? open_spare() : ::fcntl(numbers_.front().get(), F_DUPFD_CLOEXEC, 0));
    if (!fd) return false;
    numbers_.push_back(std::move(fd));
  }
  return true;
}

Result<void> SpareDescriptors::take_at_start() {
  if (take() || errno != EMFILE) return {};
  return sys_error(EMFILE, "keep {} descriptors for snapshots", 2 * kMany);
}

void SpareDescriptors::give() {
  const std::lock_guard lock(spares_mutex);
  numbers_.clear();
}

bool SpareDescriptors::close_one() {
  const std::lock_guard lock(spares_mutex);
  if (kept_spares == nullptr || kept_spares->files_.empty()) return false;
  kept_spares->files_.pop_back();
  return true;
}

bool SpareDescriptors::free_number() {
  {
    const std::lock_guard lock(spares_mutex);
    if (kept_spares != nullptr && !kept_spares->numbers_.empty()) {
      kept_spares->numbers_.pop_back();
      return true;
    }
  }
  return close_one();
}

std::string descriptor_advice(const Error& error) {
  // Also in the text of another error: that of the configuration, or the broker's.
  const bool lacks = error.what.find(std::generic_category().message(EMFILE)) != std::string::npos;
  if (!lacks || error.what.find("RLIMIT_NOFILE") != std::string::npos) return "";
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("; RLIMIT_NOFILE is {}: raise LimitNOFILE= of the unit (ulimit -n by hand)", limit.rlim_cur);
}

}  // namespace flight
