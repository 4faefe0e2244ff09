// SPDX-License-Identifier: Apache-2.0
// The messages between the broker and a helper (helpers.hpp), on a stream socket: frames, each with a body. Both sides
// are one program, so a frame is sent as it is in memory. All functions wait for the other side; one thread at a time
// uses a socket. The receiver compares a frame's length with Helpers::kMostBytes before it makes space for the body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libcore/base/unique_fd.hpp"

namespace flight::broker {

enum class FrameKind : std::uint32_t {
  request,   // to the helper
  answered,  // from the helper, as the next two: Helpers::Notices
  part,
  reply,
  multiply  // to the helper: make another one; brings its socket. The reply is its pid, or an errno below 0
};
struct Frame {
  FrameKind kind = FrameKind::request;
  std::uint32_t bytes = 0;  // that follow
};

// False: the other side is gone, here and below.
[[nodiscard]] bool receive_exactly(int socket, void* out, std::size_t bytes);
[[nodiscard]] bool send_exactly(int socket, const void* from, std::size_t bytes);
[[nodiscard]] bool send_frame(int socket, FrameKind kind, std::span<const std::byte> body);
// A descriptor arrives with the first byte of a frame.
[[nodiscard]] bool send_with_descriptor(int socket, const Frame& frame, int descriptor);
[[nodiscard]] bool receive_frame(int socket, Frame& frame, UniqueFd& descriptor);

}  // namespace flight::broker
