// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/spare_descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <mutex>

namespace flight {
namespace {

int open_spare() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

// A file of its own. Its number is a high one: the low ones stay free for a limit that is lowered later.
UniqueFd open_surplus() {
  constexpr int kLowest = 1024;
  const UniqueFd low(::open("/", O_PATH | O_CLOEXEC));
  return UniqueFd(low ? ::fcntl(low.get(), F_DUPFD_CLOEXEC, kLowest) : -1);
}

bool says(const Error& error, int error_number) {
  return error.what.find(std::generic_category().message(error_number)) != std::string::npos;
}

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
  take_surplus();
  return true;
}

void SpareDescriptors::take_surplus() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < kLimitForSurplus) return;
  surplus_.reserve(kSurplus);
  while (surplus_.size() < kSurplus) {
    UniqueFd fd = open_surplus();
    if (!fd) return;
    surplus_.push_back(std::move(fd));
  }
}

Result<void> SpareDescriptors::take_at_start() {
  if (take() || errno != EMFILE) return {};
  return sys_error(EMFILE, "keep {} descriptors for snapshots", 2 * kMany);
}

void SpareDescriptors::give() {
  const std::lock_guard lock(spares_mutex);
  numbers_.clear();
}

bool SpareDescriptors::close_one(int why) {
  const std::lock_guard lock(spares_mutex);
  if (kept_spares == nullptr) return false;
  auto& files = kept_spares->files_.empty() && why == ENFILE ? kept_spares->surplus_ : kept_spares->files_;
  if (files.empty()) return false;
  files.pop_back();
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
  return close_one(EMFILE);
}

bool lacks_descriptors(const Error& error) {
  const int number = error.errno_value();
  return number == EMFILE || number == ENFILE || says(error, EMFILE);  // ENFILE's text begins with EMFILE's
}

// Also in the text of another error: that of the configuration, or the broker's.
std::string descriptor_advice(const Error& error, std::string_view program) {
  if (says(error, ENFILE)) {
    if (error.what.find("fs.file-max") != std::string::npos) return "";
    return "; fs.file-max is reached (`cat /proc/sys/fs/file-nr`): end the program that has so many files open, or "
           "raise it";
  }
  if (!says(error, EMFILE) || error.what.find("RLIMIT_NOFILE") != std::string::npos) return "";
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("; RLIMIT_NOFILE{}{} is {}: raise LimitNOFILE= of {} unit (ulimit -n by hand)",
                     program.empty() ? "" : " of ", program, limit.rlim_cur, program.empty() ? "the" : "its");
}

}  // namespace flight
