// SPDX-License-Identifier: Apache-2.0
// The definitions of the file format that writer, features and reader share: the 104 byte header, sections, and the
// size of a stored attr. Private to this module. Source: tools/perf/Documentation/perf.data-file-format.txt.
#pragma once

#include <linux/perf_event.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace flight {

static_assert(std::endian::native == std::endian::little, "perf.data files of flightd are little-endian");

inline constexpr std::uint64_t kFileMagic = 0x32454c4946524550;  // "PERFILE2"
inline constexpr unsigned kFeatureBits = 256;
// PERF_ATTR_SIZE_VER7 (5.13): a reader refuses a file whose attrs are larger than those it knows.
inline constexpr std::uint32_t kFileAttrBytes = 128;
static_assert(sizeof(perf_event_attr) >= kFileAttrBytes);

struct FileSection {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

struct FileHeader {
  std::uint64_t magic = 0;
  std::uint64_t size = 0;       // of this header
  std::uint64_t attr_size = 0;  // of an attr and the section of its ids
  FileSection attrs, data, event_types;
  std::array<std::uint64_t, kFeatureBits / 64> features{};
};
static_assert(sizeof(FileHeader) == 104);

inline void append_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// The bytes of a fixed-size value as in memory: all fields of the format are little-endian and unpadded.
template <typename T>
void append_value(std::vector<std::byte>& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  append_bytes(out, std::as_bytes(std::span(&value, 1)));
}

inline void append_text(std::vector<std::byte>& out, std::string_view text) {
  append_bytes(out, std::as_bytes(std::span(text.data(), text.size())));
}

// An attr as stored in the file: kFileAttrBytes of it, and attr.size has that value. Later fields are not stored.
inline void append_attr(std::vector<std::byte>& out, perf_event_attr attr) {
  attr.size = kFileAttrBytes;
  append_bytes(out, std::as_bytes(std::span(&attr, 1)).first(kFileAttrBytes));
}

}  // namespace flight
