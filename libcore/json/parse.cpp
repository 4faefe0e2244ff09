// SPDX-License-Identifier: Apache-2.0
#include "libcore/json/parse.hpp"

#include <unordered_map>

#include "libcore/json/events.hpp"

namespace flight::json {
namespace {

constexpr std::size_t kFewMembers = 16;  // for so few, comparing is faster than hashing

bool all_differ(const std::vector<Member>& members) {
  for (auto one = members.begin(); one != members.end(); ++one)
    for (auto other = members.begin(); other != one; ++other)
      if (one->key == other->key) return false;
  return true;
}

// Whether a key was given twice: the last value then replaces the first one.
bool drop_repeated(std::vector<Member>& members) {
  if (members.size() <= kFewMembers && all_differ(members)) return false;
  std::unordered_map<std::string_view, std::size_t> first;  // views of keys, which do not move meanwhile
  std::vector<bool> dropped(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto [known, fresh] = first.try_emplace(members[i].key, i);
    if (fresh) continue;
    members[known->second].value = std::move(members[i].value);
    dropped[i] = true;
  }
  if (first.size() == members.size()) return false;
  std::vector<Member> kept;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (!dropped[i]) kept.push_back(std::move(members[i]));
  members = std::move(kept);
  return true;
}

// Builds the tree. open_ contains the objects and arrays that are not closed yet, the root first.
class Tree : public Events {
 public:
  explicit Tree(bool unique_keys) : unique_keys_(unique_keys) {}

  bool null() override { return add(Value()); }
  bool flag(bool value) override { return add(Value(value)); }
  bool whole(std::uint64_t value) override { return add(Value(value)); }
  bool negative(std::int64_t value) override { return add(Value(value)); }
  bool number(double value) override { return add(Value(value)); }
  bool text(std::string& value) override {
    return add(Value(std::string_view(value)));
  }  // copies it out of the parser's buffer
  bool key(std::string& name) override {
    open_.back().key = name;
    return true;
  }
  bool begin_object() override { return open(/*object=*/true); }
  bool begin_array() override { return open(/*object=*/false); }
  bool end_array() override {
    Array items = std::move(open_.back().items);
    open_.pop_back();
    return add(Value(std::move(items)));
  }
  bool end_object() override {
    std::vector<Member> members = std::move(open_.back().members);
    open_.pop_back();
    if (drop_repeated(members) && unique_keys_) return refuse("it gives a key twice");
    return add(Value(Object(std::move(members))));
  }

  [[nodiscard]] const std::string& refused() const { return refused_; }
  [[nodiscard]] Value root() { return std::move(root_); }

 private:
  struct Open {
    std::string key;  // of the next member; unused in an array
    Array items;
    std::vector<Member> members;
    bool object = false;
  };

  bool open(bool object) {
    if (open_.size() >= static_cast<std::size_t>(kMaxDepth))
      return refuse(fmt::format("it nests deeper than {} levels", kMaxDepth));
    open_.emplace_back().object = object;
    return true;
  }
  bool add(Value value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().object)
      open_.back().members.push_back({std::move(open_.back().key), std::move(value)});
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }
  bool refuse(std::string why) {
    refused_ = std::move(why);
    return false;
  }

  bool unique_keys_;
  std::vector<Open> open_;
  Value root_;
  std::string refused_;
};

}  // namespace

Result<Value> parse(std::string_view text, const Limits& limits) {
  if (text.size() > limits.max_bytes)
    return fail(std::errc::file_too_large, "{} bytes of JSON are more than the {} allowed", text.size(),
                limits.max_bytes);
  Tree tree(limits.unique_keys);
  const Outcome outcome = read_events(text, tree);
  if (outcome.complete) return tree.root();
  if (outcome.fault.empty()) return fail(std::errc::bad_message, "{}", tree.refused());
  if (outcome.consumed > text.size()) return fail(std::errc::bad_message, "it is not JSON, or it was cut off");
  return fail(std::errc::bad_message, "it is not JSON, or its text is not UTF-8: byte {} of {}", outcome.consumed,
              text.size());
}

Value parse_or_null(std::string_view text) {
  auto value = parse(text);
  return value ? std::move(*value) : Value();
}

}  // namespace flight::json
