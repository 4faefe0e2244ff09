// SPDX-License-Identifier: Apache-2.0
// What each setting of a unit forbids, tried by one who has the setting (see probe.cpp).
#pragma once

#include <functional>
#include <map>
#include <string>

namespace probe {

// What was possible; empty where it was refused.
using Wrong = std::string;
// `value`: all that the unit says of this key, with spaces between.
using Attempt = std::function<Wrong(const std::string& value)>;

// By the setting's key. What is possible after all does no harm.
const std::map<std::string, Attempt>& attempts();

}  // namespace probe
