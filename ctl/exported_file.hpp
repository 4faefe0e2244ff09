// SPDX-License-Identifier: Apache-2.0
// The file that `flightctl export` and `flightctl html` write.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "ctl/commands.hpp"
#include "libcore/base/result.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

using WriteBytes = std::function<Result<void>(std::span<const std::byte> bytes)>;

// As given, else the snapshot's name with this suffix in the current directory. EEXIST as check_place().
[[nodiscard]] Result<std::string> place_of_export(const Sidecar& sidecar, const OutputFile& output,
                                                  std::string_view suffix);
// As write_target(): `make` writes its bytes with what it gets.
[[nodiscard]] Result<void> write_exported(const std::string& where,
                                          const std::function<Result<void>(const WriteBytes& write)>& make);

}  // namespace flight::ctl
