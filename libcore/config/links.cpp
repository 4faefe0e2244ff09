// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

namespace flight {

Result<std::string> broken_link_text(const LookUp& look, const std::string& path) {
  constexpr std::size_t kMostLinks = 40;  // the kernel follows no more
  std::vector<std::string> seen;
  std::string out, at = path;
  while (seen.size() < kMostLinks && std::find(seen.begin(), seen.end(), at) == seen.end()) {
    const auto target = look(Look::target, at);
    if (!target) return propagate(target.error());
    if (target->empty()) {
      if (seen.empty()) return std::string();
      return out + ", which does not exist: mount its file system, or remove the link";
    }
    out += fmt::format("{} {}", seen.empty() ? "it is a link to" : ", a link to", *target);
    seen.push_back(at);
    at = (std::filesystem::path(at).parent_path() / *target).string();
  }
  return out + ": these links lead nowhere, because they lead back to each other: remove one";
}

Result<BrokenLink> broken_folder(const LookUp& look, const std::string& folder) {
  const std::string above = std::filesystem::path(folder).parent_path().string();
  for (const std::string& path : {folder, above}) {
    if (path == above) {
      const auto opened = look(Look::json_files, path);
      if (opened || opened.error().errno_value() != ENOENT) break;
    }
    auto text = broken_link_text(look, path);
    if (!text) return propagate(text.error());
    if (!text->empty()) return BrokenLink{.path = path, .text = std::move(*text)};
  }
  return BrokenLink{};
}

}  // namespace flight
