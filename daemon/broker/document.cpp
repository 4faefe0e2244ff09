// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/document.hpp"

#include <algorithm>
#include <utility>

#include "libcore/base/files.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight::broker {

Result<int> Document::of(std::span<const std::byte> bytes) {
  if (memfd_ && std::equal(bytes.begin(), bytes.end(), bytes_.begin(), bytes_.end())) return memfd_.get();
  const SpareDescriptors::Use use;
  auto memfd = sealed_memfd(name_, bytes);
  if (!memfd) return propagate(memfd.error());
  memfd_ = std::move(*memfd);
  bytes_.assign(bytes.begin(), bytes.end());
  return memfd_.get();
}

}  // namespace flight::broker
