// SPDX-License-Identifier: Apache-2.0
// A /proc with the sampler's files, whose contents change while they stay open.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "libcore/sysinfo/proc_stat.hpp"

namespace flight::test {

class ProcTree {
 public:
  ProcTree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "flight-trigger-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << pattern;
    root = pattern;
  }
  ProcTree(const ProcTree&) = delete;
  ProcTree& operator=(const ProcTree&) = delete;
  ~ProcTree() {
    std::error_code error;
    std::filesystem::remove_all(root, error);
  }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file(root + "/" + name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  }
  // As the kernel writes it, with a sum that must not be used.
  void stat(const std::vector<CpuTicks>& cpus, int running = 1, int blocked = 0) const {
    std::string text = "cpu  999999 0 999999 1 0 0 0 0 0 0\n";
    for (const CpuTicks& cpu : cpus) {
      text += "cpu" + std::to_string(cpu.cpu);
      for (const std::uint64_t ticks : cpu.ticks) text += " " + std::to_string(ticks);
      text += " 0 0\n";
    }
    text += "intr 12345 0 0 7\nctxt 99\nbtime 1795351631\nprocesses 6941\nprocs_running " + std::to_string(running) +
            "\nprocs_blocked " + std::to_string(blocked) + "\nsoftirq 1 2 3\n";
    write("stat", text);
  }
  void pressure(const std::string& resource, std::uint64_t some_us, std::uint64_t full_us) const {
    write("pressure/" + resource, "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(some_us) +
                                      "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(full_us) +
                                      "\n");
  }
  void loadavg(int running) const { write("loadavg", "0.50 0.40 0.30 " + std::to_string(running) + "/114 6942\n"); }

  std::string root;
};

}  // namespace flight::test
