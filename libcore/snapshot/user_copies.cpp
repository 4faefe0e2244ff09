// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/user_copies.hpp"

#include <cstring>

#include "libcore/perf/sample_parts.hpp"

namespace flight {

UserCopies::UserCopies(const EventTable& events) : events_(events), any_(events.copies_user()) {
  if (any_) cut_.resize(kMaxRecordBytes);
}

std::span<const std::byte> UserCopies::cut(std::span<const std::byte> record, const std::optional<RecordKey>& key) {
  if (!any_ || record.size() < kRecordHeaderBytes) return record;
  auto header = load<perf_event_header>(record.data());
  if (header.type != PERF_RECORD_SAMPLE) return record;
  if (!key || record.size() > cut_.size()) return {};  // whose it is decides whether it has copies
  const RecordLayout& layout = events_.layout(key->event);
  if (!layout.copies_user()) return record;
  const auto parts = sample_parts(record, layout);
  if (!parts) return {};
  const auto head = record.first(parts->copies);
  const auto rest = record.subspan(parts->copies_end);
  const std::size_t size = head.size() + rest.size();
  header.size = static_cast<__u16>(size);
  std::memcpy(cut_.data(), head.data(), head.size());
  std::memcpy(cut_.data(), &header, sizeof header);
  std::memcpy(cut_.data() + head.size(), rest.data(), rest.size());
  return std::span(cut_).first(size);
}

void remove_user_copies(perf_event_attr& attr) {
  attr.sample_type &= ~kUserCopies;
  attr.sample_regs_user = 0;
  attr.sample_stack_user = 0;
}

std::size_t user_copy_bytes(std::span<const std::byte> sample, const RecordLayout& layout) {
  if (!layout.copies_user()) return 0;
  const auto parts = sample_parts(sample, layout);
  return parts ? parts->copies_end - parts->copies : sample.size();
}

}  // namespace flight
