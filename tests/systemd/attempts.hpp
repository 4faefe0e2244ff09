// SPDX-License-Identifier: Apache-2.0
// Attempts to do what each setting of a unit forbids; they run with that setting (see probe.cpp).
#pragma once

#include <functional>
#include <map>
#include <string>

namespace probe {

// A description of what was possible; empty if it was refused.
using Wrong = std::string;
// `value`: the unit's whole value of this key, separated by spaces.
using Attempt = std::function<Wrong(const std::string& value)>;

// By the setting's key. An attempt that succeeds does no harm.
const std::map<std::string, Attempt>& attempts();

}  // namespace probe
