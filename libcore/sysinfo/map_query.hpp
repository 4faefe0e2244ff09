// SPDX-License-Identifier: Apache-2.0
// PROCMAP_QUERY on an open /proc/PID/maps: reads one mapping by its address, without the text. Private to sysinfo.
//
// Never with a buffer for the build-id: on a mapping of a FUSE file whose server hangs, the asking thread then cannot
// be ended until the mount is aborted (seen on 6.12 and 6.18).
#pragma once

#include <sys/ioctl.h>

#include <cstdint>

namespace flight {

// The kernel's argument (proc_pid_maps(5); include/uapi/linux/fs.h since 6.11, which is newer than the headers used
// here): first the request, then the reply, both with sizes.
struct MapQuery {
  std::uint64_t size = sizeof(MapQuery);
  std::uint64_t wanted = 0;
  std::uint64_t address = 0;
  std::uint64_t start = 0, end = 0, flags = 0, page_size = 0, offset = 0, inode = 0;
  std::uint32_t major = 0, minor = 0;
  std::uint32_t name_bytes = 0, build_id_bytes = 0;
  std::uint64_t name_at = 0, build_id_at = 0;
};
static_assert(sizeof(MapQuery) == 104);
inline constexpr unsigned long kMapQuery = _IOWR('f', 17, MapQuery);  // PROCFS_IOCTL_MAGIC
namespace map_query {
inline constexpr std::uint64_t kReadable = 0x1, kWritable = 0x2, kExecutable = 0x4, kShared = 0x8, kThisOrNext = 0x10;
}  // namespace map_query

}  // namespace flight
