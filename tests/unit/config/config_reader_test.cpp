// SPDX-License-Identifier: Apache-2.0
// A process reads the configuration: its result is that of the loader, and one that does not answer is not waited for.
// tests/e2e/config_disk_test.cpp has file systems that hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "libcore/config/config_child.hpp"
#include "libcore/config/config_reader.hpp"
#include "tests/unit/environment.hpp"

namespace flight {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using testing::HasSubstr;
constexpr std::chrono::seconds kLong{60};

class ConfigReading : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-reader-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    file_ = root_ + "/flightd.json";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& text) const { std::ofstream(file_) << text; }
  static std::vector<std::string> own() { return {test::config_child(), "child", std::string(kReadConfigOption)}; }
  static std::vector<std::string> silent() { return {test::config_child(), "child", "--silent"}; }
  // `file_` becomes $0.
  static std::vector<std::string> shell(const std::string& script) { return {"/bin/sh", "sh", "-c", script}; }
  std::string error_of(std::vector<std::string> command) const {
    ConfigReader reader(file_, std::move(command));
    const auto config = reader.read(kLong);
    EXPECT_FALSE(config);
    if (config) return "";
    EXPECT_TRUE(config.error().unread);
    EXPECT_FALSE(reader.busy());
    return config.error().text();
  }
  std::string root_, file_;
};

TEST_F(ConfigReading, ReadsWhatTheLoaderReads) {
  write("{ \"profile\": \"wide\" }");
  std::filesystem::create_directory(root_ + "/profiles");
  std::ofstream(root_ + "/profiles/wide.json") << "{ \"channels\": { \"wide\": { \"events\": [\"cpu-clock\"] } } }";
  ConfigReader reader(file_, own());
  auto config = reader.read(kLong);
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->digest, load_config(file_)->digest);
  ASSERT_EQ(config->channels.size(), 1U);
  EXPECT_EQ(config->channels[0].name, "wide");
  // The next reading has what was written since then.
  write("{ \"snapshot\": { \"workers\": 1 } }");
  config = reader.read(kLong);
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->digest, load_config(file_)->digest);
  EXPECT_FALSE(reader.busy());
}

TEST_F(ConfigReading, MoreThanASocketHolds) {
  write("{ \"snapshot\": { \"workers\": 1 } }" + std::string(1'000'000, ' '));
  ConfigReader reader(file_, own());
  const auto config = reader.read(kLong);
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->digest, load_config(file_)->digest);
}

TEST_F(ConfigReading, ErrorsAreThoseOfTheLoader) {
  for (const char* text : {"{\n \"stor\": {} }", "{", ""}) {
    write(text);
    ConfigReader reader(file_, own());
    const auto config = reader.read(kLong);
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().text(), load_config(file_).error().text());
    EXPECT_FALSE(config.error().unread);
  }
  std::filesystem::remove(file_);
  ConfigReader reader(file_, own());
  EXPECT_THAT(reader.read(kLong).error().text(), HasSubstr("No such file"));
}

TEST_F(ConfigReading, TheDefaultFolders) {
  ConfigReader reader("", own()), direct("");
  const auto config = reader.read(kLong), same = direct.read(kLong);
  ASSERT_EQ(config.has_value(), same.has_value());
  if (config) {
    EXPECT_EQ(config->digest, same->digest);
  }
}

TEST_F(ConfigReading, NamesWhatDoesNotAnswerAndGoesOnLater) {
  write("{}");
  ConfigReader reader(file_, silent());
  reader.begin();
  EXPECT_GE(reader.fd(), 0);
  auto config = reader.read(5s);
  ASSERT_FALSE(config);
  EXPECT_TRUE(config.error().unread);
  EXPECT_THAT(config.error().text(), HasSubstr("the configuration " + file_ + " does not answer: "));
  EXPECT_TRUE(reader.busy()) << "the reading goes on";
  EXPECT_TRUE(reader.is_late(5s));
  EXPECT_FALSE(reader.take());
  config = reader.read(1ms);
  EXPECT_THAT(config.error().text(), HasSubstr("does not answer"));
  // The next reading is another one.
  reader.drop();
  EXPECT_FALSE(reader.busy());
  reader.begin();
  EXPECT_TRUE(reader.busy());
}

class ReplacedWhileItHangs : public ConfigReading {
 protected:
  void SetUp() override {
    ConfigReading::SetUp();
    std::filesystem::create_symlink("elsewhere", file_);
    reader_.emplace(file_, std::vector<std::string>{test::config_child(), "child", "--hangs-at-links"});
    ASSERT_FALSE(reader_->read(ConfigReader::kSoon));
    ASSERT_TRUE(reader_->is_late());
  }
  // Until the process of look_again() has ended: the descriptor is that of the first one again.
  [[nodiscard]] bool nothing_new() {
    const int hangs = reader_->fd();
    reader_->look_again();
    for (int i = 0; i < 6000 && reader_->fd() != hangs; ++i) {
      if (reader_->take()) return false;
      std::this_thread::sleep_for(10ms);
    }
    return reader_->fd() == hangs && reader_->busy();
  }
  [[nodiscard]] std::optional<ConfigResult<Config>> look_again() {
    reader_->look_again();
    for (int i = 0; i < 6000; ++i) {
      if (auto result = reader_->take()) return result;
      std::this_thread::sleep_for(10ms);
    }
    return std::nullopt;
  }
  // The process of look_again() hangs at another link, and is the reading from now on.
  void hang_at_another() {
    std::filesystem::remove(file_);
    std::filesystem::create_symlink("another", file_);
    reader_->look_again();
    pollfd looks{.fd = reader_->fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&looks, 1, 60'000), 1);
    EXPECT_FALSE(reader_->take());
    reader_->look_again();
  }
  std::optional<ConfigReader> reader_;
};

// In an earlier version only another broker read it.
TEST_F(ReplacedWhileItHangs, ByAFileIsFound) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(nothing_new()) << "more than may be left behind";
  EXPECT_THAT(reader_->silence().text(), HasSubstr("the configuration " + file_ + " does not answer"));
  std::filesystem::remove(file_);
  write("{ \"snapshot\": { \"workers\": 1 } }");
  const auto config = look_again();
  ASSERT_TRUE(config && *config);
  EXPECT_EQ((*config)->digest, load_config(file_)->digest);
  EXPECT_FALSE(reader_->busy());
}

TEST_F(ReplacedWhileItHangs, ByAWrongFileIsAnError) {
  std::filesystem::remove(file_);
  write("{");
  const auto config = look_again();
  ASSERT_TRUE(config);
  ASSERT_FALSE(*config);
  EXPECT_EQ(config->error().text(), load_config(file_).error().text());
  EXPECT_FALSE(reader_->busy());
}

TEST_F(ReplacedWhileItHangs, ByAnotherThatHangsIsWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(hang_at_another());
  ASSERT_TRUE(nothing_new()) << "the second one is the reading now";
  std::filesystem::remove(file_);
  write("{}");
  const auto config = look_again();
  EXPECT_TRUE(config && *config);
}

// In an earlier version the reading failed: "the process that reads it ended (exit status 75)".
TEST_F(ReplacedWhileItHangs, ByAnotherThatAnswersAndThenByTheFirst) {
  ASSERT_NO_FATAL_FAILURE(hang_at_another());
  std::filesystem::remove(file_);
  write("{}");
  std::ofstream(file_ + ".ends") << "";
  const auto config = reader_->read(kLong);
  EXPECT_TRUE(config) << config.error().text();
  EXPECT_FALSE(reader_->busy());
}

TEST_F(ConfigReading, ItIsLateWhenALookTakesLong) {
  ConfigReader reader(file_, silent());
  EXPECT_FALSE(reader.is_late());
  EXPECT_FALSE(reader.read(ConfigReader::kSoon));
  EXPECT_TRUE(reader.is_late());
  EXPECT_FALSE(reader.is_late(kLong));
  reader.drop();
  EXPECT_FALSE(reader.is_late());
}

// The machine may be busy.
TEST_F(ConfigReading, OneThatDoesNotBeginHasMoreTimeAndIsNoDisk) {
  ConfigReader reader(file_, shell("exec sleep 60"));
  const auto begun = std::chrono::steady_clock::now();
  reader.begin();
  std::this_thread::sleep_for(ConfigReader::kSoon + 200ms);
  EXPECT_FALSE(reader.is_late());
  EXPECT_THAT(reader.read(10ms).error().text(), HasSubstr("the process that reads it does not begin"));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, ConfigReader::kToBegin);
}

TEST_F(ConfigReading, ReturnsWhenNobodyNeedsIt) {
  const UniqueFd stop(::eventfd(1, EFD_CLOEXEC));
  ConfigReader reader(file_, silent());
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(reader.read(kLong, stop.get()));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kLong / 2);
}

TEST_F(ConfigReading, AProcessThatEndsOrTalksNonsenseIsAnError) {
  EXPECT_THAT(error_of(shell("exit 3")), HasSubstr("cannot be read: the process that reads it ended (exit status 3)"));
  EXPECT_THAT(error_of(shell("kill -SEGV $$")), HasSubstr("ended (signal 11)"));
  EXPECT_THAT(error_of(shell("exec yes")), HasSubstr("malformed"));
  EXPECT_THAT(error_of({"/no/such/program", "x"}), HasSubstr("/no/such/program: No such file"));
}

TEST_F(ConfigReading, TooManyBytesAreSaid) {
  EXPECT_THAT(error_of({test::config_child(), "child", "--endless"}), HasSubstr("more than 64 MiB"));
}

}  // namespace
}  // namespace flight
