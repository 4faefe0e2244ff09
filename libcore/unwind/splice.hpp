// SPDX-License-Identifier: Apache-2.0
// When the copied stack is too short, continues an unwind with the kernel's own walk along the frame pointers, which
// reads the live stack: code below a deep recursion often keeps frame pointers.
//
//   unwound     leaf  f  g  h  r  r  r │ the copy ends
//   kernel      leaf        h  r  r  r  r  r  main  _start
//                                   └─▶ appended ─────────▶
#pragma once

#include <cstdint>
#include <span>

#include "libcore/unwind/code_map.hpp"
#include "libcore/unwind/unwinder.hpp"

namespace flight {

// `pcs` are the frames that `unwound` describes; the new ones are written after them, up to the span's end. `kernel`:
// the user part of the callchain, innermost first. No-op unless the status is truncated and the last frame occurs in
// it. If it occurs several times, the place with the most equal frames before it is taken, then the innermost. Frames
// outside executable mappings are left out.
void splice(Unwound& unwound, std::span<std::uint64_t> pcs, std::span<const std::uint64_t> kernel, const CodeMap& code);

}  // namespace flight
