// SPDX-License-Identifier: Apache-2.0
#include "tests/systemd/refusals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace probe {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// `result` of a system call that must fail with one of these errors.
Wrong refused(const char* what, long result, std::initializer_list<int> with) {
  const int error = errno;
  if (result >= 0) return std::string(what) + " was possible";
  if (std::find(with.begin(), with.end(), error) != with.end()) return "";
  return std::string(what) + ": " + std::strerror(error);
}

Wrong expect(bool holds, const std::string& what) { return holds ? "" : what; }

Wrong first(std::initializer_list<Wrong> all) {
  for (const Wrong& wrong : all)
    if (!wrong.empty()) return wrong;
  return "";
}

Wrong no_file_made(const std::string& folder) {
  return refused(("a file in " + folder).c_str(),
                 open((folder + "/probe").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), {EROFS});
}

Wrong not_opened(const std::string& path) {
  return refused(path.c_str(), open(path.c_str(), O_RDONLY | O_CLOEXEC), {ENOENT, EACCES, EPERM});
}

// Tries to create a file or, in /proc/sys, where that is never possible, reads the kernel's list of mounts.
Wrong read_only(const char* path) {
  if (no_file_made(path).empty()) return "";
  std::string mounts;
  std::array<char, 4096> part{};
  const int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
  for (ssize_t size; (size = read(fd, part.data(), part.size())) > 0;)
    mounts.append(part.data(), static_cast<std::size_t>(size));
  close(fd);
  const std::size_t at = mounts.rfind(" " + std::string(path) + " ");
  const bool is_read_only = at != std::string::npos && mounts.compare(at + std::strlen(path) + 2, 2, "ro") == 0;
  return expect(is_read_only, std::string(path) + " is not read-only");
}

// The markers below these folders, which exist outside.
Wrong markers_unseen(std::initializer_list<const char*> folders) {
  for (const std::string& marker : words(env("PROBE_MARKERS")))
    for (const char* folder : folders)
      if (marker.rfind(folder, 0) == 0)
        if (Wrong wrong = not_opened(marker); !wrong.empty()) return wrong;
  return "";
}

Wrong own_namespace(const char* name, const char* outside) {
  std::array<char, 64> mine{};
  const ssize_t size = readlink((std::string("/proc/self/ns/") + name).c_str(), mine.data(), mine.size() - 1);
  return expect(size > 0 && !env(outside).empty() && env(outside) != mine.data(),
                std::string("the machine's own ") + name);
}

// The value of a line of /proc/self/status.
std::string status_of(const std::string& key) {
  std::array<char, 16384> text{};
  const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || read(fd, text.data(), text.size() - 1) <= 0) return "";
  close(fd);
  const std::string all = text.data();
  const std::size_t at = all.find("\n" + key + ":\t");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size() + 3;
  return all.substr(begin, all.find('\n', begin) - begin);
}

}  // namespace probe
