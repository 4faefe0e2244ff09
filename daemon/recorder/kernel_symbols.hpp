// SPDX-License-Identifier: Apache-2.0
// The kernel's maps and symbols of the broker's last reply; constant. kallsyms and the maps of the loaded modules were
// read together, so that a symbol is never assigned to another module's addresses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/broker/client.hpp"

namespace flight::daemon {

struct KernelSymbols {
  KernelNames names;  // empty: no reply yet
  // kallsyms as one zstd frame, about 1 MB; nullptr: it could not be read.
  std::shared_ptr<const std::vector<std::byte>> frame;

  // The successor of `before`. EBADMSG: the reply refers to symbols that `before` does not have.
  [[nodiscard]] static Result<std::shared_ptr<const KernelSymbols>> of(KernelReply reply, const KernelSymbols& before);

  // The name of the frame's file in the store; empty if there is none.
  [[nodiscard]] std::string file(const std::string& boot_id) const;
};

}  // namespace flight::daemon
