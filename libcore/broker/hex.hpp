// SPDX-License-Identifier: Apache-2.0
// Bytes as lower-case hex digits: the form of an attr and a build id in the manifest, which is text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flight {

[[nodiscard]] std::string to_hex(const void* data, std::size_t bytes);
// False if `text` is not hex or has more than `most` bytes.
[[nodiscard]] bool from_hex(std::string_view text, std::vector<std::uint8_t>& out, std::size_t most);

}  // namespace flight
