// SPDX-License-Identifier: Apache-2.0
// dump() writes the same bytes as nlohmann/json: flightd reads files and replies of earlier versions, and they read
// flightd's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "libcore/json/value.hpp"

namespace flight::json {
namespace {

using Library = nlohmann::ordered_json;

std::string library_dump(const Library& value, int indent = -1) {
  return value.dump(indent, ' ', false, Library::error_handler_t::replace);
}

TEST(Dump, WritesEveryByteOfATextAsTheLibrary) {
  std::vector<std::string> texts{"",     "plain",     "\"",        "\\",           "é…",
                                 "\xff", "a\xe2\x80", "\xe2\x80z", "\xed\xa0\x80", "\xf0\x9f\x92\xa9"};
  for (int byte = 0; byte < 256; ++byte) texts.push_back({'a', static_cast<char>(byte), 'z'});
  for (const std::string& text : texts) {
    EXPECT_EQ(dump_text(text), library_dump(text)) << testing::PrintToString(text);
    EXPECT_EQ(dump(Object{{text, text}}), library_dump(Library{{text, text}})) << testing::PrintToString(text);
  }
}

TEST(Dump, WritesNumbersAsTheLibrary) {
  for (const double number : {0.0, -0.0, 1.0, 0.1, 100.0, 1e15, 1e16, 1e-5, 1.0 / 3, 1e300, 5e-324, 93.75})
    EXPECT_EQ(dump(Value(number)), library_dump(number));
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN, INT64_MAX})
    EXPECT_EQ(dump(Value(number)), library_dump(number));
  EXPECT_EQ(dump(Value(UINT64_MAX)), "18446744073709551615");
  EXPECT_EQ(dump(Value(std::nan(""))), "null");
  EXPECT_EQ(dump(Value(std::numeric_limits<double>::infinity())), "null");
}

// The same value in both forms: flightd's and the library's.
struct Both {
  Value ours;
  Library library;
};

class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed) {}

  Both make(int depth) {
    switch (draw(depth > 0 ? 8 : 6)) {
      case 0:
        return {Value(), Library()};
      case 1:
        return same(draw(2) == 1);
      case 2:
        return same(static_cast<std::uint64_t>(random_()));
      case 3:
        return same(-static_cast<std::int64_t>(random_()));
      case 4:
        return same(static_cast<double>(random_()) / 1000);
      case 5:
        return same(text());
      case 6:
        return array(depth);
      default:
        return object(depth);
    }
  }

 private:
  template <typename T>
  static Both same(const T& value) {
    return {Value(value), Library(value)};
  }
  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }
  std::string text() {
    std::string text(draw(20), '\0');
    for (char& c : text) c = static_cast<char>(draw(4) == 0 ? draw(256) : 'a' + draw(26));
    return text;
  }
  Both array(int depth) {
    Array ours;
    Library library = Library::array();
    for (unsigned i = draw(4); i > 0; --i) {
      Both item = make(depth - 1);
      ours.push_back(std::move(item.ours));
      library.push_back(std::move(item.library));
    }
    return {Value(std::move(ours)), std::move(library)};
  }
  Both object(int depth) {
    Object ours;
    Library library = Library::object();
    for (unsigned i = draw(4); i > 0; --i) {
      Both member = make(depth - 1);
      const std::string key = text() + std::to_string(i);
      ours.add(key, std::move(member.ours));
      library[key] = std::move(member.library);
    }
    return {Value(std::move(ours)), std::move(library)};
  }

  std::mt19937 random_;
};

TEST(Dump, WritesTreesAsTheLibrary) {
  Maker maker(7);
  for (int i = 0; i < 2000; ++i) {
    const Both both = maker.make(4);
    ASSERT_EQ(dump(both.ours), library_dump(both.library));
    ASSERT_EQ(dump(both.ours, 2), library_dump(both.library, 2));
  }
}

}  // namespace
}  // namespace flight::json
