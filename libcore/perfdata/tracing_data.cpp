// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/tracing_data.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace flight {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kTraceMagic = "\x17\x08\x44tracing"sv;
constexpr std::size_t kMostSources = 1U << 16U;  // a kernel has some 3,000 tracepoints
constexpr std::size_t kMostSystemBytes = 255;    // a file name's

// Takes parts from the front. After the first that is not there, `good` is false, and all others are empty.
class TraceCursor {
 public:
  explicit TraceCursor(std::string_view rest) : rest_(rest) {}

  [[nodiscard]] bool good() const { return good_; }
  void fail() { good_ = false; }
  std::string_view bytes(std::uint64_t count) {
    good_ = good_ && count <= rest_.size();
    if (!good_) return {};
    const std::string_view out = rest_.substr(0, static_cast<std::size_t>(count));
    rest_.remove_prefix(out.size());
    return out;
  }
  template <typename T>
  T number() {
    const std::string_view at = bytes(sizeof(T));
    T value{};
    if (good_) std::memcpy(&value, at.data(), sizeof value);
    return value;
  }
  std::string_view sized() { return bytes(number<std::uint64_t>()); }
  // Up to its NUL.
  std::string_view name() {
    const std::size_t end = rest_.find('\0');
    const std::string_view out = bytes(end == std::string_view::npos ? rest_.size() + std::uint64_t{1} : end);
    static_cast<void>(bytes(1));
    return out;
  }

 private:
  std::string_view rest_;
  bool good_ = true;
};

// Behind the magic number; nullopt: the byte order is another one.
std::optional<std::vector<TracepointSource>> sources_behind(TraceCursor& cursor) {
  std::vector<TracepointSource> out;
  static_cast<void>(cursor.name());  // the version
  if (cursor.number<std::uint8_t>() != 0 && cursor.good()) return std::nullopt;
  static_cast<void>(cursor.bytes(sizeof(std::uint8_t) + sizeof(std::uint32_t)));  // sizes of long and of a page
  for (const std::string_view header : {"header_page"sv, "header_event"sv}) {
    if (cursor.name() != header) cursor.fail();
    static_cast<void>(cursor.sized());
  }
  // ftrace's own formats.
  for (auto left = cursor.number<std::uint32_t>(); left > 0 && cursor.good(); --left) static_cast<void>(cursor.sized());
  for (auto systems = cursor.number<std::uint32_t>(); systems > 0 && cursor.good(); --systems) {
    const std::string_view system = cursor.name();
    for (auto left = cursor.number<std::uint32_t>(); left > 0 && cursor.good(); --left) {
      out.push_back({.system = std::string(system.substr(0, kMostSystemBytes)), .format = std::string(cursor.sized())});
      if (out.size() > kMostSources) cursor.fail();
    }
  }
  return out;
}

}  // namespace

Result<std::vector<TracepointSource>> read_tracing_data(std::span<const std::byte> contents) {
  TraceCursor cursor(std::string_view(reinterpret_cast<const char*>(contents.data()), contents.size()));
  if (cursor.bytes(kTraceMagic.size()) != kTraceMagic)
    return fail(std::errc::bad_message, "the formats of its tracepoints: the magic number is wrong");
  auto out = sources_behind(cursor);
  if (!out) return fail(std::errc::not_supported, "the formats of its tracepoints have another byte order");
  if (!cursor.good()) return fail(std::errc::bad_message, "the formats of its tracepoints are cut");
  return std::move(*out);
}

}  // namespace flight
