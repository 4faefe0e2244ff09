// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/reader.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "libcore/base/nearest_word.hpp"
#include "libcore/base/units.hpp"
#include "libcore/config/renamed_keys.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxTextBytes = 4000;  // the kernel accepts filters below one page

// The value for a message: a text in quotes, another value by its kind.
std::string shown(const Value& value) {
  if (value.kind == Value::Kind::text) return fmt::format("\"{}\"", excerpt(value.text));
  if (value.kind == Value::Kind::number) return fmt::format("{}", value.number);
  if (value.kind == Value::Kind::boolean) return value.boolean ? "true" : "false";
  return std::string(to_string(value.kind));
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

// In the notation of the configuration: "64K", "1G".
std::string short_bytes(std::uint64_t bytes) {
  if (bytes >= 1U << 30U && bytes % (1U << 30U) == 0) return fmt::format("{}G", bytes >> 30U);
  if (bytes >= 1U << 20U && bytes % (1U << 20U) == 0) return fmt::format("{}M", bytes >> 20U);
  if (bytes >= 1U << 10U && bytes % (1U << 10U) == 0) return fmt::format("{}K", bytes >> 10U);
  return fmt::format("{}", bytes);
}

}  // namespace

bool valid_config_name(std::string_view name) {
  constexpr std::size_t kMaxNameBytes = 32;
  const auto good = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !name.empty() && name.size() <= kMaxNameBytes && name[0] != '-' && std::all_of(name.begin(), name.end(), good);
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
  refuse(fmt::format("{} is not allowed here; use {}", shown(*value_), right));
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
      const Reader key = of(at_key);
      const std::string renamed = renamed_text(key.path());
      key.refuse(renamed.empty() ? fmt::format("there is no such key{} (known here: {})", nearest_text(item.key, known),
                                               join_words(known))
                                 : renamed + "; NEWS.md lists all renamed keys");
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
      of(item).refuse(
          fmt::format("'{}' is not a valid name of a {}: use {}", excerpt(item.key), what, kConfigNameRule));
    else if (item.kind != Value::Kind::null)
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
    refuse(fmt::format("an empty text, one of more than {} bytes or one with control characters is not allowed; use {}",
                       kMaxTextBytes, right));
  else
    out = value_->text;
}

void Reader::choice(std::string& out, const std::vector<std::string_view>& words) const {
  const std::string right = fmt::format("\"{}\"", fmt::join(words, "\" or \""));
  if (!is(Value::Kind::text, right)) return;
  if (std::find(words.begin(), words.end(), value_->text) == words.end())
    refuse(fmt::format("{} is not known here; use {}", shown(*value_), right));
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
    refuse(fmt::format("{} is out of range; use {}", shown(*value_), right));
  else
    out = value_->whole;
}

void Reader::bytes(std::uint64_t& out, std::uint64_t least, std::uint64_t most) const {
  const std::string right =
      fmt::format("a size from \"{}\" to \"{}\" with K, M or G", short_bytes(least), short_bytes(most));
  if (!is(Value::Kind::text, right)) return;
  const auto size = parse_bytes(value_->text);
  if (!size || *size < least || *size > most)
    refuse(fmt::format("{} is not such a size; use {}", shown(*value_), right));
  else
    out = *size;
}

void Reader::ring_bytes(std::uint64_t& out, std::uint64_t least, std::uint64_t most) const {
  std::uint64_t size = out;
  bytes(size, least, most);
  if ((size & (size - 1)) == 0) {
    out = size;
    return;
  }
  std::uint64_t below = least;
  while (below * 2 <= size) below *= 2;
  const auto text = [](std::uint64_t n) {
    return n >= 1U << 20U ? fmt::format("{}M", n >> 20U) : fmt::format("{}K", n >> 10U);
  };
  refuse(fmt::format("\"{}\" is not a power of two; use \"{}\" or \"{}\"", excerpt(value().text), text(below),
                     text(below * 2)));
}

void Reader::duration(std::chrono::nanoseconds& out, std::chrono::nanoseconds least,
                      std::chrono::nanoseconds most) const {
  const std::string right = fmt::format("a time such as \"500ms\", \"2s\", \"5min\", \"1h\" or \"30d\", from {} to {}",
                                        format_duration(least), format_duration(most));
  if (!is(Value::Kind::text, right)) return;
  const auto time = parse_duration(value_->text);
  if (!time || *time < least || *time > most)
    refuse(fmt::format("{} is not such a time; use {}", shown(*value_), right));
  else
    out = *time;
}

void Reader::size_or_share(SizeOrShare& out, bool zero_allowed) const {
  constexpr std::string_view kRight = "a size such as \"512M\" or \"2G\", or a share such as \"10%\"";
  if (!is(Value::Kind::text, kRight)) return;
  const auto share = parse_percent(value_->text);
  const auto size = parse_bytes(value_->text);
  if (!share && !size)
    refuse(fmt::format("{} is not a size; use {}", shown(*value_), kRight));
  else if (!zero_allowed && (share ? *share == 0 : *size == 0))
    refuse(fmt::format("{} is too small; use {}", shown(*value_), kRight));
  else
    out = share ? SizeOrShare{.bytes = 0, .percent = *share} : SizeOrShare{.bytes = *size, .percent = 0};
}

void Reader::percent(double& out) const {
  constexpr std::string_view kRight = "a share from \"0%\" to \"100%\"";
  if (!is(Value::Kind::text, kRight)) return;
  const auto share = parse_percent(value_->text);
  if (!share)
    refuse(fmt::format("{} is not a share; use {}", shown(*value_), kRight));
  else
    out = *share;
}

}  // namespace flight
