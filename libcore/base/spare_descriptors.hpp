// SPDX-License-Identifier: Apache-2.0
// Descriptors that are kept for the moment in which there are no more (RLIMIT_NOFILE, fs.file-max). Any thread.
//
//   files     each one a file of its own. with_spare() closes one when a call fails for lack of a descriptor, and
//             repeats the call at once. fs.file-max is a limit of the whole machine: other programs would take what is
//             closed earlier.
//   surplus   more files, for fs.file-max only. Programs with CAP_SYS_ADMIN may open files above it (fs/file_table.c):
//             then as many as there are too many must be closed before anybody else can open one.
//   numbers   of one file, for descriptors that come in a message. give() closes them before a snapshot, free_number()
//             one at a time until a message fits.
#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

class SpareDescriptors {
 public:
  // More than a snapshot opens at a time, in flightd and in flightd-broker each.
  static constexpr std::size_t kMany = 16;
  static constexpr std::size_t kSurplus = 240;
  static constexpr rlim_t kLimitForSurplus = 16384;  // with a smaller RLIMIT_NOFILE there is no surplus

  // A process has one, which with_spare() uses.
  SpareDescriptors();
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;
  ~SpareDescriptors();

  // Opens /dev/null until there are kMany files and as many numbers; false: no more can be had. First thing in main():
  // the lowest numbers are free for certain below every limit. Then the surplus, as far as it can be had.
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

  // Closes a file of this process's, for a call that failed with `why`: EMFILE or ENFILE. False: there is none.
  [[nodiscard]] static bool close_one(int why);
  // Closes a number of this process's, or without one a file; false: there is none.
  [[nodiscard]] static bool free_number();

 private:
  void take_surplus();

  std::vector<UniqueFd> files_, numbers_, surplus_;
};

// For std::bad_alloc.
inline constexpr const char* kOutOfMemory = "out of memory or address space (ulimit -v, MemoryMax=): raise the limit";
// Whether a limit of descriptors or files is the reason: EMFILE or ENFILE, also in the text of another error.
[[nodiscard]] bool lacks_descriptors(const Error& error);
// What to do about it; empty: the error is another one, or says it. RLIMIT_NOFILE is this process's: `program` is its
// name, if the text is for another program.
[[nodiscard]] std::string descriptor_advice(const Error& error, std::string_view program = {});

// `make` returns a descriptor, or -1 and errno, as this does.
template <typename Make>
[[nodiscard]] UniqueFd with_spare(Make make) {
  for (;;) {
    UniqueFd made(make());
    const int why = errno;
    const bool lacks = !made && (why == EMFILE || why == ENFILE);
    if (lacks && SpareDescriptors::Use::allowed() && SpareDescriptors::close_one(why)) continue;
    errno = why;
    return made;
  }
}

}  // namespace flight
