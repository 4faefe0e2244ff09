// SPDX-License-Identifier: Apache-2.0
// The library that dlopener loads.
#include "tests/e2e/loads/load.hpp"

extern "C" void hot_in_late_library() { flight::load::spin(flight::load::kWorkRounds); }
