// SPDX-License-Identifier: Apache-2.0
// Detects a refusal: by its errno, or because something is not visible. Each returns what was possible, or nothing.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "tests/systemd/attempts.hpp"

namespace probe {

std::string env(const char* name);
std::vector<std::string> words(const std::string& text);
Wrong refused(const char* what, long result, std::initializer_list<int> with);
Wrong expect(bool holds, const std::string& what);
Wrong first(std::initializer_list<Wrong> all);
Wrong no_file_made(const std::string& folder);
Wrong not_opened(const std::string& path);
Wrong read_only(const char* path);
Wrong markers_unseen(std::initializer_list<const char*> folders);
Wrong own_namespace(const char* name, const char* outside);
std::string status_of(const std::string& key);

}  // namespace probe
