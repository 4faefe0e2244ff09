// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/reader.hpp"

#include <algorithm>
#include <utility>

#include "libcore/base/units.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxTextBytes = 4000;  // the kernel takes filters below a page

// What was found, for a message: a text in quotes, anything else by its kind.
std::string shown(const Value& value) {
  if (value.kind == Value::Kind::text) return fmt::format("\"{}\"", excerpt(value.text));
  if (value.kind == Value::Kind::number) return fmt::format("{}", value.number);
  if (value.kind == Value::Kind::boolean) return value.boolean ? "true" : "false";
  return std::string(to_string(value.kind));
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

// As people write it in the configuration: "64K", "1G".
std::string short_bytes(std::uint64_t bytes) {
  if (bytes >= 1U << 30U && bytes % (1U << 30U) == 0) return fmt::format("{}G", bytes >> 30U);
  if (bytes >= 1U << 20U && bytes % (1U << 20U) == 0) return fmt::format("{}M", bytes >> 20U);
  if (bytes >= 1U << 10U && bytes % (1U << 10U) == 0) return fmt::format("{}K", bytes >> 10U);
  return fmt::format("{}", bytes);
}

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

}  // namespace

bool valid_config_name(std::string_view name) {
  constexpr std::size_t kMaxNameBytes = 32;
  const auto good = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !name.empty() && name.size() <= kMaxNameBytes && name[0] != '-' && std::all_of(name.begin(), name.end(), good);
}

std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& known) {
  constexpr std::size_t kMaxCompared = 64;  // the table grows with it; no word of ours is longer
  constexpr std::size_t kMinPrefix = 3;
  std::string_view nearest;
  std::size_t fewest = SIZE_MAX;
  for (const std::string_view candidate : known) {
    // A word cut short is near to the whole one, however much is missing.
    const bool cut = word.size() >= kMinPrefix && (candidate.starts_with(word) || word.starts_with(candidate));
    const std::size_t count = cut ? 1 : edits(word.substr(0, kMaxCompared), candidate);
    if (count < fewest) {
      fewest = count;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string join_words(const std::vector<std::string_view>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

Reader Reader::of(const Value& member) const { return {*check_, member, path_of_member(path_, member.key)}; }

void Reader::refuse(std::string message) const {
  if (check_->error) return;
  const Place& place = value_->place;
  check_->error = ConfigError{place.source ? place.source->file : "", place.line, path_, std::move(message)};
}

bool Reader::is(Value::Kind kind, std::string_view right) const {
  if (value_->kind == kind) return true;
  refuse(fmt::format("{} stands here; right would be {}", shown(*value_), right));
  return false;
}

void Reader::object(std::initializer_list<Field> fields) const {
  if (!is(Value::Kind::object, "an object { … }")) return;
  for (const Value& item : value_->items) {
    const auto* field = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.key == item.key; });
    if (field == fields.end()) {
      std::vector<std::string_view> known;
      for (const Field& f : fields) known.push_back(f.key);
      Value at_key = Value{.key = item.key, .place = item.key_place};
      of(at_key).refuse(fmt::format("there is no such key; the nearest is '{}' (known here: {})",
                                    nearest_word(item.key, known), join_words(known)));
    } else if (item.kind != Value::Kind::null || !check_->fragment) {
      field->read(of(item));
    }
  }
}

void Reader::named(std::string_view what, std::size_t most, const std::function<void(const Reader&)>& read) const {
  if (!is(Value::Kind::object, fmt::format("an object {{ \"NAME\": {{ … }}, … }} with one member for each {}", what)))
    return;
  if (value_->items.size() > most)
    refuse(fmt::format("{} {}s are too many: at most {}", value_->items.size(), what, most));
  for (const Value& item : value_->items) {
    if (!valid_config_name(item.key))
      of(item).refuse(fmt::format("'{}' is no name for a {}: use {}", excerpt(item.key), what, kConfigNameRule));
    else if (item.kind != Value::Kind::null || !check_->fragment)
      read(of(item));
  }
}

void Reader::list(std::size_t most, const std::function<void(const Reader&)>& read) const {
  if (!is(Value::Kind::array, "a list [ … ]")) return;
  if (value_->items.size() > most) refuse(fmt::format("{} items are too many: at most {}", value_->items.size(), most));
  const bool was_fragment = std::exchange(check_->fragment, false);
  for (std::size_t i = 0; i < value_->items.size(); ++i) read({*check_, value_->items[i], path_of_item(path_, i)});
  check_->fragment = was_fragment;
}

void Reader::flag(bool& out) const {
  if (is(Value::Kind::boolean, "true or false")) out = value_->boolean;
}

void Reader::text(std::string& out, std::string_view right) const {
  if (!is(Value::Kind::text, right)) return;
  if (value_->text.empty() || value_->text.size() > kMaxTextBytes || has_control(value_->text))
    refuse(
        fmt::format("an empty text, one of more than {} bytes or one with control characters is not allowed; right "
                    "would be {}",
                    kMaxTextBytes, right));
  else
    out = value_->text;
}

void Reader::choice(std::string& out, const std::vector<std::string_view>& words) const {
  const std::string right = fmt::format("\"{}\"", fmt::join(words, "\" or \""));
  if (!is(Value::Kind::text, right)) return;
  if (std::find(words.begin(), words.end(), value_->text) == words.end())
    refuse(fmt::format("{} is not known here; right would be {}", shown(*value_), right));
  else
    out = value_->text;
}

void Reader::capture_mode(CaptureMode& out) const {
  std::string word;
  choice(word, {to_string(CaptureMode::pause), to_string(CaptureMode::live)});
  if (!word.empty()) out = word == to_string(CaptureMode::live) ? CaptureMode::live : CaptureMode::pause;
}

void Reader::whole(std::uint64_t& out, std::uint64_t least, std::uint64_t most) const {
  const std::string right = fmt::format("a whole number from {} to {}, without quotes", least, most);
  if (!is(Value::Kind::number, right)) return;
  if (!value_->is_whole || value_->whole < least || value_->whole > most)
    refuse(fmt::format("{} is out of range; right would be {}", shown(*value_), right));
  else
    out = value_->whole;
}

void Reader::bytes(std::uint64_t& out, std::uint64_t least, std::uint64_t most) const {
  const std::string right =
      fmt::format("a size from \"{}\" to \"{}\" with K, M or G", short_bytes(least), short_bytes(most));
  if (!is(Value::Kind::text, right)) return;
  const auto size = parse_bytes(value_->text);
  if (!size || *size < least || *size > most)
    refuse(fmt::format("{} is no such size; right would be {}", shown(*value_), right));
  else
    out = *size;
}

void Reader::duration(std::chrono::nanoseconds& out, std::chrono::nanoseconds least,
                      std::chrono::nanoseconds most) const {
  const std::string right = fmt::format("a time such as \"500ms\", \"2s\", \"5min\", \"1h\" or \"30d\", from {} to {}",
                                        format_duration(least), format_duration(most));
  if (!is(Value::Kind::text, right)) return;
  const auto time = parse_duration(value_->text);
  if (!time || *time < least || *time > most)
    refuse(fmt::format("{} is no such time; right would be {}", shown(*value_), right));
  else
    out = *time;
}

void Reader::size_or_share(SizeOrShare& out, bool zero_allowed) const {
  constexpr std::string_view kRight = "a size such as \"512M\" or \"2G\", or a share such as \"10%\"";
  if (!is(Value::Kind::text, kRight)) return;
  const auto share = parse_percent(value_->text);
  const auto size = parse_bytes(value_->text);
  if (!share && !size)
    refuse(fmt::format("{} is no size; right would be {}", shown(*value_), kRight));
  else if (!zero_allowed && (share ? *share == 0 : *size == 0))
    refuse(fmt::format("{} leaves nothing; right would be {}", shown(*value_), kRight));
  else
    out = share ? SizeOrShare{.bytes = 0, .percent = *share} : SizeOrShare{.bytes = *size, .percent = 0};
}

void Reader::percent(double& out) const {
  constexpr std::string_view kRight = "a share from \"0%\" to \"100%\"";
  if (!is(Value::Kind::text, kRight)) return;
  const auto share = parse_percent(value_->text);
  if (!share)
    refuse(fmt::format("{} is no share; right would be {}", shown(*value_), kRight));
  else
    out = *share;
}

}  // namespace flight
