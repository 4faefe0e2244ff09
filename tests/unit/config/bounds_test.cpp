// SPDX-License-Identifier: Apache-2.0
// Bounds of the configuration, and generated texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "libcore/base/files.hpp"
#include "libcore/config/parse.hpp"
#include "tests/unit/environment.hpp"

namespace flight {
namespace {

std::string many(std::size_t count, const std::function<std::string(std::size_t)>& piece) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += (i == 0 ? "" : ",") + piece(i);
  return out;
}

TEST(ConfigBounds, ChannelsEventsTriggers) {
  const auto channels = [](std::size_t count, std::size_t events) {
    const std::string list = many(events, [](std::size_t) { return "\"cycles\""; });
    return "{\"channels\": {" +
           many(count, [&](std::size_t i) { return fmt::format("\"c{}\": {{\"events\": [{}]}}", i, list); }) + "}}";
  };
  EXPECT_TRUE(parse_config(channels(64, 4), "x"));
  EXPECT_THAT(parse_config(channels(65, 1), "x").error().text(), testing::HasSubstr("at most 64"));
  EXPECT_TRUE(parse_config(channels(1, 256), "x"));
  EXPECT_THAT(parse_config(channels(1, 257), "x").error().text(), testing::HasSubstr("at most 256"));
  EXPECT_THAT(parse_config(channels(2, 129), "x").error().text(), testing::HasSubstr("at most 256"));
  const auto triggers = [](std::size_t count) {
    return "{\"triggers\": {" +
           many(count, [](std::size_t i) { return fmt::format("\"t{}\": {{\"external\": true}}", i); }) + "}}";
  };
  EXPECT_TRUE(parse_config(triggers(64), "x"));
  EXPECT_THAT(parse_config(triggers(65), "x").error().text(), testing::HasSubstr("at most 64"));
}

TEST(ConfigBounds, TextSizeAndListLength) {
  const std::string blanks(1U << 20U, ' ');
  EXPECT_TRUE(parse_config("{}" + blanks.substr(2), "x"));
  EXPECT_THAT(parse_config("{}" + blanks, "x").error().text(), testing::HasSubstr("at most 1048576"));
  const std::string list = "{\"user\": [" + many(2000, [](std::size_t) { return "1"; }) + "]}";
  EXPECT_THAT(parse_config(list, "x").error().text(), testing::HasSubstr("more than 1024"));
}

TEST(ConfigBounds, AMessageStaysShortAndPrintable) {
  const auto config = parse_config("{\"" + std::string(100000, 'k') + "\\n\": 1}", "x");
  ASSERT_FALSE(config);
  EXPECT_LT(config.error().text().size(), 400U);
  const auto newline = parse_config("{\"a\\nb\": 1}", "x");
  ASSERT_FALSE(newline);
  EXPECT_EQ(newline.error().text().find('\n'), std::string::npos);
  // The text is cut between characters, not inside one, because messages go into JSON.
  const auto wide = parse_config("{\"user\": \"a" + std::string(32, '-') + "ääääääääääääääääääääääää\"}", "x");
  ASSERT_FALSE(wide);
  EXPECT_THAT(wide.error().message, testing::HasSubstr("ä…"));
}

// Hostile bytes lead to an error or a configuration, never to a crash. Each byte of a valid text in turn is replaced,
// removed, or becomes the end of the text.
TEST(ConfigBounds, MangledTexts) {
  const auto text = read_file(test::source_root() + "/tests/unit/config/fixtures/every_key.json");
  ASSERT_TRUE(text);
  std::mt19937 random(1);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < text->size(); ++i) {
    std::string replaced = *text;
    replaced[i] = static_cast<char>(random());
    std::string removed = *text;
    removed.erase(i, 1);
    for (const std::string& mangled : {replaced, removed, text->substr(0, i)}) {
      const auto config = parse_config(mangled, "x");
      if (config) continue;
      ++refused;
      EXPECT_FALSE(config.error().message.empty());
      EXPECT_GE(config.error().line, 1) << config.error().text();
    }
  }
  EXPECT_GT(refused, text->size());
}

TEST(ConfigFile, ThatIsMissingIsReported) {
  const auto config = load_config(std::string("/nonexistent/flightd.json"));
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().line, 0);
  EXPECT_THAT(config.error().text(), testing::HasSubstr("No such file"));
}

TEST(ConfigErrorText, LeavesOutWhatItDoesNotKnow) {
  EXPECT_EQ((ConfigError{"f", 3, "a.b", "m"}.text()), "f:3: a.b: m");
  EXPECT_EQ((ConfigError{"f", 3, "", "m"}.text()), "f:3: m");
  EXPECT_EQ((ConfigError{"f", 0, "", "m"}.text()), "f: m");
}

}  // namespace
}  // namespace flight
