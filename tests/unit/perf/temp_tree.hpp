// SPDX-License-Identifier: Apache-2.0
// A directory for a fake sysfs or tracefs, removed with its owner.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace flight::test {

class TempTree {
 public:
  TempTree() : root_(::mkdtemp(path_.data())) {}
  TempTree(const TempTree&) = delete;
  TempTree& operator=(const TempTree&) = delete;
  ~TempTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    ASSERT_TRUE(std::filesystem::exists(path)) << path;
  }
  [[nodiscard]] const std::string& path() const { return root_; }

 private:
  std::string path_ = "/tmp/flight-perf-XXXXXX";
  std::string root_;
};

}  // namespace flight::test
