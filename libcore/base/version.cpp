// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/version.hpp"

namespace flight {

constinit const std::string_view kVersion = FLIGHTD_VERSION;

}  // namespace flight
