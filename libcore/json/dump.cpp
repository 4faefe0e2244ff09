// SPDX-License-Identifier: Apache-2.0
// Values to text. The library writes the difficult parts: texts with special characters, and fractions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "libcore/json/value.hpp"

namespace flight::json {
namespace {

using Library = nlohmann::json;

// Printable ASCII that needs no escape: nearly every text here.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

void append_text(std::string& out, std::string_view text) {
  if (is_plain(text))
    out.append("\"").append(text).append("\"");
  else
    out += Library(text).dump(-1, ' ', false, Library::error_handler_t::replace);
}

// One function is called for each kind of value.
class Writer {
 public:
  Writer(std::string& out, int indent) : out_(out), indent_(indent) {}

  void operator()(std::monostate) { out_ += "null"; }
  void operator()(bool flag) { out_ += flag ? "true" : "false"; }
  void operator()(std::int64_t number) { fmt::format_to(std::back_inserter(out_), "{}", number); }
  void operator()(std::uint64_t number) { fmt::format_to(std::back_inserter(out_), "{}", number); }
  void operator()(double number) { out_ += std::isfinite(number) ? Library(number).dump() : "null"; }
  void operator()(const std::string& text) { append_text(out_, text); }
  void operator()(const Array& items) {
    list('[', ']', items, [&](const Value& item) { item.visit(*this); });
  }
  void operator()(const Object& object) {
    list('{', '}', object.members(), [&](const Member& member) {
      append_text(out_, member.key);
      out_ += indent_ < 0 ? ":" : ": ";
      member.value.visit(*this);
    });
  }

 private:
  template <typename Items, typename Each>
  void list(char opens, char closes, const Items& items, const Each& each) {
    out_ += opens;
    ++depth_;
    for (const auto& item : items) {
      if (&item != &items.front()) out_ += ',';
      new_line();
      each(item);
    }
    --depth_;
    if (!items.empty()) new_line();
    out_ += closes;
  }
  void new_line() {
    if (indent_ >= 0) out_.append("\n").append(static_cast<std::size_t>(indent_) * depth_, ' ');
  }

  std::string& out_;
  int indent_;
  std::size_t depth_ = 0;
};

template <typename T>
std::string written(const T& held, int indent) {
  std::string out;
  Writer(out, indent)(held);
  return out;
}

}  // namespace

std::string dump(const Value& value, int indent) {
  return value.visit([&](const auto& held) { return written(held, indent); });
}
std::string dump(const Object& object, int indent) { return written(object, indent); }
std::string dump(const Array& items, int indent) { return written(items, indent); }

std::string dump_text(std::string_view text) {
  std::string out;
  append_text(out, text);
  return out;
}

}  // namespace flight::json
