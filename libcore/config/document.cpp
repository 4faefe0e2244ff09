// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/document.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "libcore/base/text.hpp"
#include "libcore/config/syntax.hpp"
#include "libcore/json/events.hpp"

namespace flight {
namespace {

// Builds the tree of the text. open_ contains the objects and arrays that are not closed yet, the root first.
class Builder : public json::Events {
 public:
  // `line`: the reader's current line.
  Builder(Source source, const int& line) : line_(line), source_(std::make_shared<const Source>(std::move(source))) {}

  bool null() override { return add({}); }
  bool flag(bool value) override { return add({.kind = Value::Kind::boolean, .boolean = value}); }
  bool negative(std::int64_t value) override {
    return add({.kind = Value::Kind::number, .number = static_cast<double>(value)});
  }
  bool whole(std::uint64_t value) override {
    return add({.kind = Value::Kind::number, .number = static_cast<double>(value), .is_whole = true, .whole = value});
  }
  bool number(double value) override { return add({.kind = Value::Kind::number, .number = value}); }
  bool text(std::string& value) override { return add({.kind = Value::Kind::text, .text = std::move(value)}); }

  bool begin_object() override { return start(Value::Kind::object); }
  bool begin_array() override { return start(Value::Kind::array); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(std::string& name) override {
    key_ = name;
    key_place_ = here();
    const Value* earlier = open_.back().member(name);
    if (earlier == nullptr) return true;
    return refuse(fmt::format("the key '{}' is given twice, first in line {}: remove one of them", excerpt(name),
                              earlier->key_place.line));
  }

  void syntax_error(SyntaxError error) {
    error_ = ConfigError{source_->file, error.line, path(), std::move(error.message)};
  }

  [[nodiscard]] ConfigResult<Value> result() {
    if (!error_ && !root_.is_object()) {
      error_ = ConfigError{
          source_->file, root_.place.line, "",
          fmt::format("a configuration is an object, {{ \"KEY\": VALUE, … }}, not {}", to_string(root_.kind))};
    }
    if (error_) return tl::unexpected(std::move(*error_));
    return std::move(root_);
  }

 private:
  [[nodiscard]] Place here() const { return {source_, line_}; }

  // The path of the value that is being read: a member whose key was read, or the next item of an array.
  [[nodiscard]] std::string path() const {
    std::string path;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      const bool innermost = i + 1 == open_.size();
      if (open_[i].kind == Value::Kind::array)
        path = path_of_item(path, open_[i].items.size());
      else if (innermost ? !key_.empty() : true)
        path = path_of_member(path, innermost ? key_ : open_[i + 1].key);
    }
    return path;
  }

  bool refuse(std::string message) {
    error_ = ConfigError{source_->file, line_, path(), std::move(message)};
    return false;
  }

  bool start(Value::Kind kind) {
    if (open_.size() >= kMaxConfigDepth)
      return refuse(fmt::format("values are nested more than {} levels deep", kMaxConfigDepth));
    Value value{.kind = kind};
    take_key(value);
    open_.push_back(std::move(value));
    return true;
  }

  bool end() {
    Value value = std::move(open_.back());
    open_.pop_back();
    return attach(std::move(value));
  }

  bool add(Value value) {
    take_key(value);
    return attach(std::move(value));
  }

  void take_key(Value& value) {
    value.place = here();
    value.key_place = key_.empty() ? value.place : key_place_;
    value.key = std::exchange(key_, {});
  }

  bool attach(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    std::vector<Value>& siblings = open_.back().items;
    if (siblings.size() >= kMaxConfigMembers)
      return refuse(fmt::format("more than {} values in one list or object", kMaxConfigMembers));
    siblings.push_back(std::move(value));
    return true;
  }

  const int& line_;
  std::shared_ptr<const Source> source_;
  std::vector<Value> open_;
  std::string key_;
  Place key_place_;
  Value root_;
  std::optional<ConfigError> error_;
};

}  // namespace

const Value* Value::member(std::string_view name) const {
  if (!is_object()) return nullptr;
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& item) { return item.key == name; });
  return found == items.end() ? nullptr : &*found;
}

std::string_view to_string(Value::Kind kind) {
  constexpr std::array<std::string_view, 6> kWords{"null",   "true or false", "a number",
                                                   "a text", "a list [ … ]",  "an object { … }"};
  return kWords.at(static_cast<std::size_t>(kind));
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kMaxShown = 64;
  std::size_t end = std::min(text.size(), kMaxShown);
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U; };
  while (end > 0 && end < text.size() && continues(end)) --end;
  return printable(text.substr(0, end)) + (end < text.size() ? "…" : "");
}

std::string path_of_member(const std::string& parent, std::string_view key) {
  return parent.empty() ? excerpt(key) : fmt::format("{}.{}", parent, excerpt(key));
}

std::string path_of_item(const std::string& parent, std::size_t index) { return fmt::format("{}[{}]", parent, index); }

ConfigResult<Value> parse_document(std::string_view text, const std::string& file, int rank, bool shipped) {
  if (text.size() > kMaxConfigBytes)
    return tl::unexpected(ConfigError{
        file, 0, "",
        fmt::format("{} bytes are too many: a configuration has at most {}", text.size(), kMaxConfigBytes)});
  int line = 1;
  Builder builder(Source{file, rank, shipped}, line);
  const json::Outcome outcome = json::read_commented_events(text, builder, line);
  if (!outcome.fault.empty()) builder.syntax_error(explain_syntax_error(text, outcome.consumed, outcome.fault));
  return builder.result();
}

void merge_patch(Value& target, Value patch) {
  if (!patch.is_object()) {
    target = std::move(patch);
    return;
  }
  if (!target.is_object()) {
    target.kind = Value::Kind::object;
    target.items.clear();
  }
  // Errors about the merged object as a whole are reported where it was last changed.
  target.key = std::move(patch.key);
  target.key_place = std::move(patch.key_place);
  target.place = std::move(patch.place);
  for (Value& change : patch.items) {
    const auto old = std::find_if(target.items.begin(), target.items.end(),
                                  [&](const Value& item) { return item.key == change.key; });
    if (change.kind == Value::Kind::null) {
      if (old != target.items.end()) target.items.erase(old);
    } else if (old != target.items.end()) {
      merge_patch(*old, std::move(change));
    } else {
      merge_patch(target.items.emplace_back(), std::move(change));
    }
  }
}

}  // namespace flight
