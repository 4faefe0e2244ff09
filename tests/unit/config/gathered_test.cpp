// SPDX-License-Identifier: Apache-2.0
// What another process found in the files of the configuration is loaded as from the files themselves.
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "libcore/config/gathered.hpp"
#include "libcore/config/parse.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class GatheredFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-gathered-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    folders_ = {.etc = root_ + "/etc", .lib = root_ + "/lib"};
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file) << text;
  }
  // The messages of a process that loads it.
  std::string messages() const {
    std::string out;
    const LookUp look = [&out](Look how, const std::string& path) {
      out += Gathered::begins(how, path);
      auto result = look_up(how, path);
      out += Gathered::found(how, path, result);
      return result;
    };
    static_cast<void>(load_config(folders_, look));
    return out + Gathered::complete(false);
  }
  // From the files, and from messages that come in pieces after the files are gone.
  void expect_same() const {
    const auto direct = load_config(folders_);
    const std::string sent = messages();
    fs::remove_all(root_);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, sent.size()}) {
      Gathered gathered;
      for (std::size_t at = 0; at < sent.size(); at += piece) {
        EXPECT_FALSE(gathered.is_complete());
        ASSERT_TRUE(gathered.add(std::string_view(sent).substr(at, piece)));
      }
      ASSERT_TRUE(gathered.is_complete());
      const auto loaded = load_config(folders_, gathered.look_up());
      ASSERT_EQ(loaded.has_value(), direct.has_value());
      if (!direct) {
        EXPECT_EQ(loaded.error().text(), direct.error().text());
        EXPECT_EQ(loaded.error().error_number, direct.error().error_number);
        continue;
      }
      EXPECT_EQ(loaded->digest, direct->digest);
      EXPECT_EQ(loaded->unread, direct->unread);
      EXPECT_EQ(loaded->values.size(), direct->values.size());
      for (std::size_t i = 0; i < direct->values.size(); ++i) {
        EXPECT_EQ(loaded->values[i].value, direct->values[i].value);
        EXPECT_EQ(loaded->values[i].file, direct->values[i].file);
      }
    }
  }
  std::string root_;
  ConfigFolders folders_;
};

TEST_F(GatheredFiles, EachKindOfFile) {
  write("etc/flightd.json", "{ \"profile\": \"wide\", \"memory\": { \"max\": \"3%\" } }");
  write("lib/profiles/wide.json", "{ \"channels\": { \"wide\": { \"events\": [\"cpu-clock\"] } } }");
  write("lib/conf.d/10-a.json", "{ \"store\": { \"max_files\": 7 } }");
  write("lib/conf.d/20-b.json", "{ \"store\": { \"max_files\": 8 } }");
  write("etc/conf.d/30-c.json", "{ \"snapshot\": { \"workers\": 1 } }");
  fs::create_symlink("/dev/null", root_ + "/etc/conf.d/20-b.json");
  write("etc/other.json", "{}");
  expect_same();
}

TEST_F(GatheredFiles, NoFile) { expect_same(); }

TEST_F(GatheredFiles, AnErrorInTheText) {
  write("etc/flightd.json", "{\n \"stor\": {} }");
  expect_same();
}

TEST_F(GatheredFiles, AProfileThatDoesNotExist) {
  write("etc/flightd.json", "{ \"profile\": \"wid\" }");
  write("lib/profiles/wide.json", "{}");
  expect_same();
}

TEST_F(GatheredFiles, AFileThatCannotBeRead) {
  fs::create_directories(root_ + "/etc/flightd.json");
  expect_same();
}

TEST_F(GatheredFiles, ADropInThatIsALinkToNothing) {
  fs::create_directories(root_ + "/etc/conf.d");
  fs::create_symlink("/nowhere/site.json", root_ + "/etc/conf.d/50-site.json");
  expect_same();
}

TEST_F(GatheredFiles, AFolderThatCannotBeRead) {
  write("etc/conf.d", "");
  expect_same();
}

TEST(Gathered, SaysWhatIsLookedAt) {
  Gathered gathered;
  EXPECT_EQ(gathered.at(), "");
  ASSERT_TRUE(gathered.add(Gathered::begins(Look::text, "/a")));
  EXPECT_EQ(gathered.at(), "/a");
  ASSERT_TRUE(gathered.add(Gathered::found(Look::text, "/a", std::string("x"))));
  EXPECT_EQ(gathered.at(), "");
  ASSERT_TRUE(gathered.add(Gathered::begins(Look::json_files, "/b")));
  EXPECT_EQ(gathered.at(), "/b");
  EXPECT_FALSE(gathered.may_hang());
  ASSERT_TRUE(gathered.add(Gathered::complete(true)));
  EXPECT_TRUE(gathered.may_hang());
  const auto unasked = gathered.look_up()(Look::text, "/c");
  ASSERT_FALSE(unasked);
  EXPECT_THAT(unasked.error().what, HasSubstr("/c"));
}

TEST(Gathered, RefusesWhatItsProgramNeverSends) {
  const std::string found = Gathered::found(Look::text, "/a", std::string("x"));
  std::string unknown = found, huge = found;
  unknown[0] = 9;                               // its kind
  huge.replace(12, 4, std::string(4, '\x7f'));  // the size of its text
  for (const std::string& wrong : {unknown, huge, found + found, Gathered::complete(false) + found}) {
    Gathered gathered;
    const auto added = gathered.add(wrong);
    ASSERT_FALSE(added);
    EXPECT_THAT(added.error().what, HasSubstr("malformed"));
  }
  Gathered gathered;
  const std::string much(std::size_t{16} << 20U, 'x');
  Result<void> added;
  for (int i = 0; i < 5 && added; ++i) added = gathered.add(Gathered::found(Look::text, std::to_string(i), much));
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().what, HasSubstr("more than 64 MiB"));
}

TEST(Gathered, NamesHaveAnyCharacter) {
  EXPECT_THAT(split_names(join_names({"a b", "c\nd", "ä"})), ElementsAre("a b", "c\nd", "ä"));
  EXPECT_THAT(split_names(join_names({})), ElementsAre());
}

TEST(Gathered, NamesTheEntryThatIsLookedAt) {
  Gathered gathered;
  EXPECT_EQ(gathered.at() + gathered.as(), "");
  ASSERT_TRUE(gathered.add(Gathered::begins(Look::text, "/etc/a")));
  EXPECT_EQ(gathered.at(), "/etc/a");
  EXPECT_EQ(gathered.as(), "") << "lstat(2) may hang, too";
  ASSERT_TRUE(gathered.add(Gathered::begins(Look::text, "/etc/a", "1:2")));
  EXPECT_EQ(gathered.at(), "/etc/a");
  EXPECT_EQ(gathered.as(), "1:2");
  ASSERT_TRUE(gathered.add(Gathered::found(Look::text, "/etc/a", std::string("{}"))));
  EXPECT_EQ(gathered.at() + gathered.as(), "");
}

TEST_F(GatheredFiles, AnEntryThatWasReplacedIsAnother) {
  const std::string file = root_ + "/file";
  fs::create_symlink("a", file);
  const std::string first = entry_identity(file);
  EXPECT_EQ(entry_identity(file), first);
  fs::create_symlink("a", root_ + "/new");
  fs::rename(root_ + "/new", file);
  EXPECT_NE(entry_identity(file), first) << "also by one with the same target";
  fs::remove(file);
  EXPECT_EQ(entry_identity(file), fmt::format("error {}", ENOENT));
}

}  // namespace
}  // namespace flight
