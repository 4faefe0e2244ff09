// SPDX-License-Identifier: Apache-2.0
// What the broker and a helper (helpers.hpp) say to each other, on a stream socket: frames, each with a body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/broker/helpers.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::broker {

enum class FrameKind : std::uint32_t {
  request,   // to the helper
  answered,  // from the helper, as the next two: Helpers::Notices
  part,
  reply,
  multiply  // to the helper: make another one
};
struct Frame {
  FrameKind kind = FrameKind::request;
  std::uint32_t bytes = 0;  // that follow
};

// What follows a `multiply`, which brings the new helper's socket; the reply is its pid, or an errno below 0.
struct NewHelper {
  Helpers::Kind kind = Helpers::Kind::reader;
};

// False: the other side is gone, here and below.
[[nodiscard]] bool receive_exactly(int socket, void* out, std::size_t bytes);
[[nodiscard]] bool send_exactly(int socket, const void* from, std::size_t bytes);
[[nodiscard]] bool send_frame(int socket, FrameKind kind, std::span<const std::byte> body);
// A descriptor arrives with the first byte of a frame.
[[nodiscard]] bool send_with_descriptor(int socket, const Frame& frame, int descriptor);
[[nodiscard]] bool receive_frame(int socket, Frame& frame, UniqueFd& descriptor);

}  // namespace flight::broker
