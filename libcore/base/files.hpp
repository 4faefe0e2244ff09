// SPDX-License-Identifier: Apache-2.0
// Small whole files, and writing all of a buffer. Bounded: a file that is larger than it may be is an error.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

inline constexpr std::size_t kMaxSmallFileBytes = 64U << 20U;

// The whole text of a regular, /proc or /sys file; EFBIG above `max_bytes`.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t max_bytes = kMaxSmallFileBytes);
// read_file without its trailing newline.
[[nodiscard]] Result<std::string> read_line(const std::string& path);
// Everything from `fd`'s beginning (pread), for a memfd or a kept-open /proc file.
// Of a regular file only, whoever put what there: opening a FIFO waits for its writer, for ever. EINVAL: it is none.
[[nodiscard]] Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes);
[[nodiscard]] Result<std::string> read_all(int fd, std::size_t max_bytes = kMaxSmallFileBytes);

// write(2) until all is written; EINTR is retried.
[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> bytes);
[[nodiscard]] Result<void> write_all(int fd, std::string_view text);

[[nodiscard]] Result<UniqueFd> open_file(const std::string& path, int flags, unsigned mode = 0);

// A memfd with `text` in it, sealed against every change: what crosses the wall.
[[nodiscard]] Result<UniqueFd> sealed_memfd(const char* name, std::span<const std::byte> bytes);
// Refuses a memfd that is not sealed (a peer could still change it); else its bytes.
[[nodiscard]] Result<std::string> read_sealed_memfd(int fd, std::size_t max_bytes);

}  // namespace flight
