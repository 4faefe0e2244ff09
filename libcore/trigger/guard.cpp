// SPDX-License-Identifier: Apache-2.0
#include "libcore/trigger/guard.hpp"
