// SPDX-License-Identifier: Apache-2.0
// Reads small files completely, and writes whole buffers. Bounded: a file above its limit is an error.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

inline constexpr std::size_t kMaxSmallFileBytes = 64U << 20U;

// The whole text of a regular, /proc or /sys file; EFBIG above `max_bytes`. `usual_bytes`: the usual size of a large
// file in /proc, whose real size is not known before it is read; up to it, the text is not moved while it grows.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t max_bytes = kMaxSmallFileBytes,
                                            std::size_t usual_bytes = 0);
// read_file without its trailing newline.
[[nodiscard]] Result<std::string> read_line(const std::string& path);
// read_file for files that other users can replace: opening a FIFO would wait for its writer without limit. EINVAL: not
// a regular file.
[[nodiscard]] Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes);
// Reads everything from `fd`'s beginning (pread), for a memfd or an open /proc file.
[[nodiscard]] Result<std::string> read_all(int fd, std::size_t max_bytes = kMaxSmallFileBytes);

// write(2) until all is written; EINTR is retried.
[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> bytes);
[[nodiscard]] Result<void> write_all(int fd, std::string_view text);
// As write_all(), and waits for the reader of a terminal or pipe also if it is O_NONBLOCK: that belongs to the open
// file, which another program may have, too.
[[nodiscard]] Result<void> write_patiently(int fd, std::span<const std::byte> bytes);

[[nodiscard]] Result<UniqueFd> open_file(const std::string& path, int flags, unsigned mode = 0);
// Opens the regular file `name` in the directory `folder` for reading. Links are not followed, and a FIFO in its place
// does not wait for a writer. ENOENT: there is no such file; ELOOP, EINVAL: it is not a regular file. `path`: for
// messages.
[[nodiscard]] Result<UniqueFd> open_regular_at(int folder, const std::string& name, const std::string& path);

// A memfd with `text`, sealed against every change: the broker protocol sends these.
[[nodiscard]] Result<UniqueFd> sealed_memfd(const char* name, std::span<const std::byte> bytes);
// The same in pieces: a memfd to be written into, and sealed when it is whole.
[[nodiscard]] Result<UniqueFd> open_memfd(const char* name);
[[nodiscard]] Result<void> seal_memfd(int fd);
// Refuses a memfd that is not sealed (a peer could still change it); else its bytes.
[[nodiscard]] Result<std::string> read_sealed_memfd(int fd, std::size_t max_bytes);
// The same without a copy.
[[nodiscard]] Result<Mapping> map_sealed_memfd(int fd, std::size_t max_bytes);

}  // namespace flight
