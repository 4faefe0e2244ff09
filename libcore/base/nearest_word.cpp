// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/nearest_word.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "libcore/base/text.hpp"

namespace flight {
namespace {

// Levenshtein's distance, one row at a time.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& known) {
  constexpr std::size_t kMaxCompared = 64;  // the table grows with it; no known word is longer
  constexpr std::size_t kMinPrefix = 3;
  const std::size_t most_edits = 1 + word.size() / 4;
  std::string_view nearest;
  std::size_t fewest = SIZE_MAX, longest_prefix = 0;
  for (const std::string_view candidate : known) {
    // An abbreviated word is near to the whole one, whatever its length.
    const bool cut = word.size() >= kMinPrefix && (candidate.starts_with(word) || word.starts_with(candidate));
    const std::size_t count = cut ? 1 : edits(word.substr(0, kMaxCompared), candidate);
    const std::size_t prefix = common_prefix(word, candidate);
    if (count > most_edits || count > fewest || (count == fewest && prefix <= longest_prefix)) continue;
    fewest = count;
    longest_prefix = prefix;
    nearest = candidate;
  }
  return nearest;
}

std::string nearest_text(std::string_view word, const std::vector<std::string_view>& known, std::string_view noun) {
  const std::string_view nearest = nearest_word(word, known);
  return nearest.empty() ? "" : fmt::format("; the {} is '{}'", noun, nearest);
}

std::string unknown_words(const std::vector<std::string>& words, const std::vector<std::string>& options,
                          const std::vector<std::string>& commands, const std::string& within) {
  if (words.empty()) return "too many arguments";
  const bool is_option = words[0].size() > 1 && words[0][0] == '-';
  const std::string_view word = std::string_view(words[0]).substr(0, words[0].find('='));
  const std::string shown = printable(word);
  if (is_option || !commands.empty()) {
    const std::vector<std::string>& known = is_option ? options : commands;
    // Each option of one letter is one edit away from another one.
    const bool is_letter = is_option && word.size() == 2;
    const std::string_view meant = is_letter ? std::string_view() : nearest_word(word, {known.begin(), known.end()});
    const std::string before = is_option || within.empty() ? "" : within + " ";
    std::string out = fmt::format("there is no {} '{}{}'", is_option ? "option" : "command", before, shown);
    if (!meant.empty()) out += fmt::format(": did you mean '{}{}'?", before, meant);
    return out;
  }
  std::string all;
  for (const std::string& one : words) all += " '" + printable(one) + "'";
  return "too many arguments:" + all;
}

std::string usage_text(const std::string& error) {
  constexpr std::string_view kBefore = ": 1 required ", kBehind = " missing", kOften = ": At Most 1 required";
  if (const std::size_t end = error.find(kOften); end != std::string::npos)
    return error.substr(0, end) + " can be given only once";
  const std::size_t at = error.find(kBefore);
  if (at == std::string::npos || !error.ends_with(kBehind)) return error;
  const std::size_t from = at + kBefore.size();
  return error.substr(0, at) + " needs a value: " + error.substr(from, error.size() - kBehind.size() - from);
}

std::string with_help(const std::string& error, std::string_view program) {
  return fmt::format("{}{} {} --help", error, error.ends_with('?') ? " See" : "; see", program);
}

}  // namespace flight
