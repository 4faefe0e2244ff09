// SPDX-License-Identifier: Apache-2.0
// A disk that is slow, fails or hangs on request: mounts BACKING at MOUNT, and reads the file CONTROL before each
// operation.
//
//   slow_disk BACKING MOUNT CONTROL [OPTIONS]    OPTIONS: of mount.fuse3(8)
//   CONTROL: OPERATION MS ERRNO BEHIND    "write 0 5 65536": a write behind the first 64 KiB of a file fails with EIO
//                                         "readdir 0 5 1":   a listing begins and then fails with EIO
//                                         "* -1 0 0":        all operations hang, until CONTROL changes
//
// CONTROL.synced gets a line for each sync of a file, "PATH BYTES": so many bytes of it outlive a power failure.
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace {

std::string backing, control;

struct Fault {
  std::string operation;
  int delay_ms = 0, error_number = 0;
  off_t behind = 0;
};

Fault fault_for(std::string_view operation) {
  Fault fault;
  std::ifstream file(control);
  file >> fault.operation >> fault.delay_ms >> fault.error_number >> fault.behind;
  return fault.operation == "*" || fault.operation == operation ? fault : Fault{};
}

// 0, or -errno.
int suffer(std::string_view operation, off_t end = 1) {
  Fault fault = fault_for(operation);
  for (; fault.delay_ms < 0; fault = fault_for(operation)) ::usleep(20'000);
  ::usleep(static_cast<useconds_t>(fault.delay_ms) * 1000);
  return end > fault.behind ? -fault.error_number : 0;
}

std::string real(const char* path) { return backing + path; }
int done(int result) { return result == -1 ? -errno : 0; }
int number(const fuse_file_info* info) { return static_cast<int>(info->fh); }

// Files belong to the process that created them, not to this one. Where chown fails, they are nobody's: so are root's
// on NFS with root_squash.
void give_to_caller(const std::string& path) {
  constexpr uid_t kNobody = 65534;
  const fuse_context* caller = ::fuse_get_context();
  const bool squashed = fault_for("chown").error_number != 0;
  (void)!::lchown(path.c_str(), squashed ? kNobody : caller->uid, squashed ? kNobody : caller->gid);
}

// Without this an open file that is removed is only renamed, by libfuse.
void* begin(fuse_conn_info*, fuse_config* config) {
  config->hard_remove = 1;
  return nullptr;
}
int get_attributes(const char* path, struct stat* out, fuse_file_info*) {
  if (const int error = suffer("getattr")) return error;
  return done(::lstat(real(path).c_str(), out));
}
int make_folder(const char* path, mode_t mode) {
  if (const int error = suffer("mkdir")) return error;
  const int result = done(::mkdir(real(path).c_str(), mode));
  if (result == 0) give_to_caller(real(path));
  return result;
}
int remove_file(const char* path) {
  if (const int error = suffer("unlink")) return error;
  return done(::unlink(real(path).c_str()));
}
int remove_folder(const char* path) { return done(::rmdir(real(path).c_str())); }
int rename_file(const char* from, const char* to, unsigned flags) {
  if (const int error = suffer("rename")) return error;
  return done(::renameat2(AT_FDCWD, real(from).c_str(), AT_FDCWD, real(to).c_str(), flags));
}
int change_mode(const char* path, mode_t mode, fuse_file_info*) {
  if (const int error = suffer("chmod")) return error;
  return done(::chmod(real(path).c_str(), mode));
}
int change_owner(const char* path, uid_t uid, gid_t gid, fuse_file_info*) {
  if (const int error = suffer("chown")) return error;
  return done(::lchown(real(path).c_str(), uid, gid));
}
int truncate_file(const char* path, off_t size, fuse_file_info*) { return done(::truncate(real(path).c_str(), size)); }
int open_file(const char* path, fuse_file_info* info) {
  if (const int error = suffer("open")) return error;
  const int fd = ::open(real(path).c_str(), info->flags & ~O_NOFOLLOW);
  info->fh = static_cast<std::uint64_t>(fd);
  return fd < 0 ? -errno : 0;
}
int create_file(const char* path, mode_t mode, fuse_file_info* info) {
  if (const int error = suffer("create")) return error;
  const int fd = ::open(real(path).c_str(), info->flags, mode);
  if (fd < 0) return -errno;
  info->fh = static_cast<std::uint64_t>(fd);
  give_to_caller(real(path));
  return 0;
}
int read_file(const char*, char* out, std::size_t bytes, off_t offset, fuse_file_info* info) {
  if (const int error = suffer("read")) return error;
  const ssize_t count = ::pread(number(info), out, bytes, offset);
  return count < 0 ? -errno : static_cast<int>(count);
}
// "quota 0 122 BYTES": a write that makes the files of the store larger than BYTES fails.
// "late_quota 0 122 BYTES": the sync of a file fails instead, as on NFS.
int suffer_quota(std::string_view kind, off_t bytes) {
  const Fault fault = fault_for(kind);
  if (fault.error_number == 0) return 0;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(backing + "/state/snapshots", error))
    bytes += static_cast<off_t>(file.file_size(error));
  return bytes > fault.behind ? -fault.error_number : 0;
}
int write_file(const char*, const char* in, std::size_t bytes, off_t offset, fuse_file_info* info) {
  if (const int error = suffer_quota("quota", static_cast<off_t>(bytes))) return error;
  if (const int error = suffer("write", offset + static_cast<off_t>(bytes))) return error;
  const ssize_t count = ::pwrite(number(info), in, bytes, offset);
  return count < 0 ? -errno : static_cast<int>(count);
}
int sync_file(const char* path, int, fuse_file_info* info) {
  if (const int error = suffer("fsync")) return error;
  if (const int error = suffer_quota("late_quota", 0)) return error;
  struct stat before {};
  if (::fstat(number(info), &before) != 0 || ::fsync(number(info)) != 0) return -errno;
  if (path != nullptr) std::ofstream(control + ".synced", std::ios::app) << path << ' ' << before.st_size << '\n';
  return 0;
}
int sync_folder(const char*, int, fuse_file_info*) { return suffer("fsyncdir"); }
int flush_file(const char*, fuse_file_info*) { return suffer("flush"); }
int release_file(const char*, fuse_file_info* info) { return done(::close(number(info))); }
int space(const char* path, struct statvfs* out) {
  if (const int error = suffer("statfs")) return error;
  return done(::statvfs(real(path).c_str(), out));
}
// In parts, each from where the last one ended: so with BEHIND 1 a listing fails in its middle.
int read_folder(const char* path, void* out, fuse_fill_dir_t fill, off_t offset, fuse_file_info*, fuse_readdir_flags) {
  if (const int error = suffer("readdir", offset + 1)) return error;
  DIR* folder = ::opendir(real(path).c_str());
  if (folder == nullptr) return -errno;
  off_t next = 0;
  while (const dirent* entry = ::readdir(folder))
    if (++next > offset && fill(out, entry->d_name, nullptr, next, fuse_fill_dir_flags{}) != 0) break;
  ::closedir(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: slow_disk BACKING MOUNT CONTROL [OPTIONS]\n");
    return 2;
  }
  ::mallopt(M_ARENA_MAX, 1);  // else malloc(3) may read the list of CPUs, which a test can have put on this disk
  backing = argv[1];
  control = argv[3];
  fuse_operations operations{};
  operations.init = begin;
  operations.getattr = get_attributes;
  operations.mkdir = make_folder;
  operations.unlink = remove_file;
  operations.rmdir = remove_folder;
  operations.rename = rename_file;
  operations.chmod = change_mode;
  operations.chown = change_owner;
  operations.truncate = truncate_file;
  operations.open = open_file;
  operations.create = create_file;
  operations.read = read_file;
  operations.write = write_file;
  operations.fsync = sync_file;
  operations.fsyncdir = sync_folder;
  operations.flush = flush_file;
  operations.release = release_file;
  operations.statfs = space;
  operations.readdir = read_folder;
  std::string name = argv[0], foreground = "-f", option = "-o", options = "allow_other,default_permissions",
              mount = argv[2];
  if (argc == 5) options += std::string(",") + argv[4];
  char* words[] = {name.data(), foreground.data(), option.data(), options.data(), mount.data(), nullptr};
  return ::fuse_main(5, words, &operations, nullptr);
}
