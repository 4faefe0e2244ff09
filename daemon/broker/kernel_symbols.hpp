// SPDX-License-Identifier: Apache-2.0
// The kernel's and its modules' symbols and address ranges, read anew for each attach, for modules come and go.
#pragma once

#include <string>

#include "libcore/broker/protocol.hpp"

namespace flight {

// /proc/kallsyms, and its maps into `manifest`. Empty, and a warning of the manifest's, where there is nothing to be
// read; zeros only (kptr_restrict) are as good as nothing.
[[nodiscard]] std::string read_kallsyms(Manifest& manifest);

}  // namespace flight
