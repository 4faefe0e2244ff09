// SPDX-License-Identifier: Apache-2.0
// What the kernel is asked by PROCMAP_QUERY, in all tests of this program: never for a build-id (map_query.hpp).
#include "libcore/sysinfo/map_query.hpp"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>

#include "libcore/sysinfo/mapped_file.hpp"
#include "libcore/sysinfo/proc_maps.hpp"

namespace {

std::atomic<unsigned> map_queries = 0;

}  // namespace

// This program's own ioctl(2). A failure counts for the test that runs.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  std::va_list list;
  va_start(list, request);
  void* argument = va_arg(list, void*);
  va_end(list);
  if (request == flight::kMapQuery) {
    ++map_queries;
    const auto& query = *static_cast<const flight::MapQuery*>(argument);
    EXPECT_EQ(query.size, sizeof query);
    EXPECT_EQ(query.build_id_bytes, 0U);
    EXPECT_EQ(query.build_id_at, 0U);
  }
  return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
}

namespace flight {
namespace {

TEST(MapQueries, DoNotAskForABuildId) {
  MapsReader reader;
  EXPECT_FALSE(reader.read("/proc/self").all.empty());
  EXPECT_GT(map_queries.exchange(0), 0U) << "its first mapping, whether this kernel has the query or not";
  const MappedAt at{.pid = static_cast<std::uint32_t>(::getpid()),
                    .address = reinterpret_cast<std::uintptr_t>(&map_queries),
                    .file = {.major = 0, .minor = 0, .inode = 1},
                    .name = "/another"};
  EXPECT_FALSE(read_by_map_files(at)) << "another file is mapped there";
  EXPECT_GT(map_queries.exchange(0), 0U);
}

}  // namespace
}  // namespace flight
