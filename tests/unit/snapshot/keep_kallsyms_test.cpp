// SPDX-License-Identifier: Apache-2.0
// The file with the kernel's symbols, which belongs to all snapshots of a boot.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/snapshot/snapshot.hpp"
#include "libcore/store/names.hpp"

namespace flight {
namespace {

// A snapshot and two recordings may need it at the same time: none of them renames what another one writes.
TEST(KeepKallsyms, SeveralThreadsKeepWholeFiles) {
  std::string folder = "/tmp/flight-kallsyms-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  constexpr std::size_t kThreads = 4, kFiles = 8, kFrameBytes = 1U << 20U;
  const auto file_of = [](std::size_t thread, std::size_t file) {
    return kallsyms_file("boot", fmt::format("{:016x}", thread * kFiles + file));
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&folder, &file_of, i] {
      const std::vector<std::byte> frame(kFrameBytes, static_cast<std::byte>(i));
      for (std::size_t n = 0; n < kFiles; ++n) {
        const auto kept = keep_kallsyms(folder, file_of(i, n), frame);
        EXPECT_TRUE(kept && *kept) << (kept ? "it exists" : kept.error().what);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kThreads; ++i)
    for (std::size_t n = 0; n < kFiles; ++n) {
      const auto text = read_file(folder + "/" + file_of(i, n));
      ASSERT_TRUE(text) << text.error().what;
      EXPECT_TRUE(*text == std::string(kFrameBytes, static_cast<char>(i))) << file_of(i, n) << " is torn";
    }
  EXPECT_FALSE(std::filesystem::exists(folder + "/.flightd-kallsyms.partial"));
  std::filesystem::remove_all(folder);
}

// In an earlier version the message was that the file exists.
TEST(KeepKallsyms, ALeftoverThatCannotBeRemovedIsNamed) {
  std::string folder = "/tmp/flight-kallsyms-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string partial = folder + "/.flightd-kallsyms.partial";
  std::filesystem::create_directory(partial);
  const auto kept = keep_kallsyms(folder, kallsyms_file("boot"), {});
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().what.find("remove " + partial), 0U) << kept.error().what;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace flight
