// SPDX-License-Identifier: Apache-2.0
// Descriptors that are kept for the moment in which there are no more (RLIMIT_NOFILE, fs.file-max). Any thread.
//
//   files     each one a file of its own. with_spare() closes one when a call fails for lack of a descriptor, and
//             repeats the call at once. fs.file-max is a limit of the whole machine: other programs would take what is
//             closed earlier.
//   numbers   of one file, for descriptors that come in a message. give() closes them before a snapshot, free_number()
//             one at a time until a message fits.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

class SpareDescriptors {
 public:
  // More than a snapshot opens at a time, in flightd and in flightd-broker each.
  static constexpr std::size_t kMany = 16;

  // A process has one, which with_spare() uses.
  SpareDescriptors();
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;
  ~SpareDescriptors();

  // Opens /dev/null until there are kMany files and as many numbers; false: no more can be had. First thing in main():
  // the lowest numbers are free for certain below every limit.
  bool take();
  // An error if RLIMIT_NOFILE is too small for them. With fs.file-max reached there may be more later.
  [[nodiscard]] Result<void> take_at_start();
  void give();

  // While one exists, this thread does work that must not fail: with_spare() may close files.
  class Use {
   public:
    Use() { ++depth_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { --depth_; }
    [[nodiscard]] static bool allowed() { return depth_ > 0; }

   private:
    static thread_local int depth_;
  };

  // Closes a file of this process's; false: there is none.
  [[nodiscard]] static bool close_one();
  // Closes a number of this process's, or without one a file; false: there is none.
  [[nodiscard]] static bool free_number();

 private:
  std::vector<UniqueFd> files_, numbers_;
};

// For std::bad_alloc.
inline constexpr const char* kOutOfMemory = "out of memory or address space (ulimit -v, MemoryMax=): raise the limit";
// What to do about EMFILE; empty: the error is another one, or says it.
[[nodiscard]] std::string descriptor_advice(const Error& error);

// `make` returns a descriptor, or -1 and errno, as this does.
template <typename Make>
[[nodiscard]] UniqueFd with_spare(Make make) {
  for (;;) {
    UniqueFd made(make());
    const int why = errno;
    const bool lacks = !made && (why == EMFILE || why == ENFILE);
    if (lacks && SpareDescriptors::Use::allowed() && SpareDescriptors::close_one()) continue;
    errno = why;
    return made;
  }
}

}  // namespace flight
