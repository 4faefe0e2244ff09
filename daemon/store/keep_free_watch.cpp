// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/keep_free_watch.hpp"

#include <algorithm>
#include <utility>

#include "libcore/json/parse.hpp"
#include "libcore/json/reader.hpp"

namespace flight::daemon {
namespace {

constexpr std::int64_t kMostCountedBytes = 1LL << 60U;  // no sum of these overflows

}  // namespace

void KeepFreeWatch::deleted(Time now, const Pass& pass) {
  if (!freeing_ && !pass.for_keep_free) return;
  if (freeing_)
    freeing_->written_bytes += static_cast<std::int64_t>(pass.own_before_bytes) - freeing_->own_after_bytes;
  else
    freeing_ = Freeing{.at = now, .free_before_bytes = static_cast<std::int64_t>(pass.free_before_bytes)};
  freeing_->own_after_bytes = static_cast<std::int64_t>(pass.own_after_bytes);
  freeing_->counted_bytes += static_cast<std::int64_t>(pass.freed_bytes);
}

void KeepFreeWatch::use_limit(std::uint64_t keep_free_bytes) {
  if (futile_below_bytes_ && keep_free_bytes < limit_bytes_)
    futile_below_bytes_ = std::min(*futile_below_bytes_, keep_free_bytes);
  limit_bytes_ = keep_free_bytes;
}

bool KeepFreeWatch::may_delete(Time now, std::uint64_t free_bytes, std::uint64_t own_bytes) {
  constexpr std::chrono::seconds kJudgedAfter(60);
  if (freeing_ && now - freeing_->at >= kJudgedAfter) {
    const std::int64_t written =
        freeing_->written_bytes + static_cast<std::int64_t>(own_bytes) - freeing_->own_after_bytes;
    const std::int64_t released = static_cast<std::int64_t>(free_bytes) + written - freeing_->free_before_bytes;
    const std::int64_t half = freeing_->counted_bytes / 2;
    if (released < half) futile_below_bytes_ = free_bytes + static_cast<std::uint64_t>(half);
    freeing_.reset();
  }
  if (futile_below_bytes_ && free_bytes < *futile_below_bytes_) return false;
  futile_below_bytes_.reset();
  return true;
}

std::string KeepFreeWatch::text() const {
  if (!futile_below_bytes_ && !freeing_) return "";
  json::Object out;
  out.add("keep_free_bytes", limit_bytes_);
  if (futile_below_bytes_) out.add("futile_below_bytes", *futile_below_bytes_);
  if (freeing_) {
    out.add("counted_bytes", freeing_->counted_bytes);
    out.add("free_before_bytes", freeing_->free_before_bytes);
    out.add("written_bytes", freeing_->written_bytes);
    out.add("own_after_bytes", freeing_->own_after_bytes);
  }
  return json::dump(out) + '\n';
}

Result<void> KeepFreeWatch::restore(std::string_view text, Time now) {
  const auto value = json::parse(text, {.max_bytes = kMaxTextBytes});
  if (!value) return propagate(value.error());
  std::uint64_t futile_below_bytes = 0, limit_bytes = 0;
  Freeing freeing{.at = now, .free_before_bytes = 0, .counted_bytes = -1};
  const auto read = json::read_object(*value, json::Missing::keeps_default, [&](const json::Reader& in) {
    in.read("keep_free_bytes", limit_bytes);
    in.count("futile_below_bytes", futile_below_bytes, kMostCountedBytes);
    const std::pair<const char*, std::int64_t*> numbers[] = {{"counted_bytes", &freeing.counted_bytes},
                                                             {"free_before_bytes", &freeing.free_before_bytes},
                                                             {"written_bytes", &freeing.written_bytes},
                                                             {"own_after_bytes", &freeing.own_after_bytes}};
    for (const auto& [key, number] : numbers) {
      in.read(key, *number);
      if (*number > kMostCountedBytes || *number < -kMostCountedBytes) in.refuse(key, "a number of bytes");
    }
  });
  if (!read) return propagate(read.error());
  limit_bytes_ = limit_bytes;
  if (futile_below_bytes > 0) futile_below_bytes_ = futile_below_bytes;
  if (freeing.counted_bytes >= 0) freeing_ = freeing;
  return {};
}

}  // namespace flight::daemon
