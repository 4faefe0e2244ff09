// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/spare_descriptors.hpp"

#include <fcntl.h>

namespace flight {

void SpareDescriptors::take() {
  const std::lock_guard lock(mutex_);
  kept_.reserve(kMany);
  while (kept_.size() < kMany) {
    // Each opened by itself: duplicates would be one file for fs.file-max.
    UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!fd) return;
    kept_.push_back(std::move(fd));
  }
}

void SpareDescriptors::give() {
  const std::lock_guard lock(mutex_);
  kept_.clear();
}

}  // namespace flight
