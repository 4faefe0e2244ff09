// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/nulls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "libcore/base/nearest_word.hpp"

namespace flight {
namespace {

constexpr std::size_t kMostWarnings = 16;
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kSections{
    {{"triggers", "trigger"}, {"channels", "channel"}}};

void append_names(std::vector<std::string_view>& out, const std::vector<const Value*>& roots,
                  std::string_view section) {
  for (const Value* root : roots) {
    const Value* const members = root->member(section);
    if (members == nullptr) continue;
    for (const Value& one : members->items)
      if (one.kind != Value::Kind::null && std::find(out.begin(), out.end(), one.key) == out.end())
        out.push_back(one.key);
  }
}

std::string null_warning(const Value& one, std::string_view section, std::string_view noun,
                         const std::vector<std::string_view>& known) {
  const Place& place = one.key_place;
  return fmt::format("{}:{}: {}: null removes nothing, because there is no {} '{}'{}",
                     place.source ? place.source->file : "", place.line, path_of_member(std::string(section), one.key),
                     noun, excerpt(one.key), nearest_text(one.key, known));
}

}  // namespace

std::vector<std::string> null_warnings(const std::vector<const Value*>& files,
                                       const std::vector<const Value*>& others) {
  std::vector<std::string> out;
  for (const auto& [section, noun] : kSections) {
    std::vector<std::string_view> known;
    append_names(known, files, section);
    append_names(known, others, section);
    for (const Value* file : files) {
      const Value* const members = file->member(section);
      if (members == nullptr) continue;
      for (const Value& one : members->items) {
        if (one.kind != Value::Kind::null || std::find(known.begin(), known.end(), one.key) != known.end()) continue;
        if (out.size() == kMostWarnings) return out;
        out.push_back(null_warning(one, section, noun, known));
      }
    }
  }
  return out;
}

}  // namespace flight
