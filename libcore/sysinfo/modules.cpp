// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/modules.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "libcore/base/digest.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/kernel_file.hpp"
#include "libcore/sysinfo/kernel_maps.hpp"
#include "libcore/sysinfo/proc_text.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxModules = 16384;
constexpr std::size_t kMaxModuleFiles = 131072;
constexpr std::size_t kMaxModulesBytes = 16U << 20U;

std::string_view take_word(std::string_view& line) {
  const std::size_t end = line.find(' ');
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

std::uint64_t inode_of(const std::string& path) {
  struct stat status {};
  return check_kernel_path(path) && ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// "kernel/fs/nls/nls-utf8.ko.xz" is module nls_utf8; empty if it is not a module.
std::string module_name_of(std::string_view path) {
  path.remove_prefix(path.find_last_of('/') + 1);
  const std::size_t suffix = path.find(".ko");
  if (suffix == std::string_view::npos) return {};
  std::string name(path.substr(0, suffix));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

using ModulePaths = std::map<std::string, std::string>;  // name -> path on the running system

// depmod's list, if there is one; much cheaper than walking the tree.
ModulePaths paths_of_modules_dep(std::string_view text, const std::string& folder) {
  ModulePaths paths;
  while (!text.empty() && paths.size() < kMaxModuleFiles) {
    const std::string_view line = take_line(text);
    const std::string_view path = line.substr(0, line.find(':'));
    std::string name = module_name_of(path);
    if (name.empty()) continue;
    paths.emplace(std::move(name), path.starts_with('/') ? std::string(path) : folder + "/" + std::string(path));
  }
  return paths;
}

ModulePaths paths_of_tree(const std::string& root, const std::string& folder) {
  namespace fs = std::filesystem;
  ModulePaths paths;
  std::error_code error;
  fs::recursive_directory_iterator entries(root + folder, fs::directory_options::skip_permission_denied, error);
  for (std::size_t seen = 0; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    if (++seen > kMaxModuleFiles) break;
    const std::string path = entries->path().string();
    std::error_code unknown;
    if (!entries->is_symlink(unknown) && entries->is_directory(unknown) && !waits_below(root + folder, path).empty())
      entries.disable_recursion_pending();
    if (std::string name = module_name_of(path); !name.empty())
      paths.emplace(std::move(name), path.substr(root.size()));
  }
  return paths;
}

}  // namespace

// Lines of /proc/modules: "ext4 983040 1 - Live 0xffffffffc0a5b000 (OE)".
Result<std::vector<LoadedModule>> loaded_modules(const std::string& root) {
  std::vector<LoadedModule> modules;
  const auto text = read_kernel_file(root + "/proc/modules", kMaxModulesBytes);
  if (!text && text.error().code == std::errc::no_such_file_or_directory) return modules;
  if (!text) return wrap(text.error(), "the loaded modules");
  std::string_view rest = *text;
  while (!rest.empty() && modules.size() < kMaxModules) {
    std::string_view line = take_line(rest);
    LoadedModule module;
    module.name = take_word(line);
    module.bytes = leading_number(take_word(line), 10);
    for (int i = 0; i < 2; ++i) take_word(line);  // references, users
    module.live = take_word(line) == "Live";
    module.address = leading_number(take_word(line), 16);
    if (module.name.empty() || module.name.find('/') != std::string::npos || module.address == 0 || module.bytes == 0)
      continue;
    const std::string folder = root + "/sys/module/" + module.name;
    module.inode = inode_of(folder);
    module.build_id = build_id_of_file(folder + "/notes/.note.gnu.build-id");
    modules.push_back(std::move(module));
  }
  std::sort(modules.begin(), modules.end(),
            [](const LoadedModule& a, const LoadedModule& b) { return a.address < b.address; });
  // Since 6.4 the size includes a module's data, which is elsewhere: do not extend into the next module's text.
  for (std::size_t i = 0; i + 1 < modules.size(); ++i)
    modules[i].bytes = std::min(modules[i].bytes, modules[i + 1].address - modules[i].address);
  return modules;
}

std::string digest_of(const std::vector<LoadedModule>& modules) {
  Digest digest;
  for (const LoadedModule& module : modules) {
    digest.add(module.name);
    digest.add(fmt::format("{:x} {} {}", module.address, module.live ? "live" : "changes",
                           module.build_id.empty() ? module.inode : 0));
    digest.add({reinterpret_cast<const char*>(module.build_id.data()), module.build_id.size()});
  }
  return digest.text();
}

Result<std::map<std::string, std::string>> module_paths(const std::string& root) {
  const auto release = read_kernel_line(root + "/proc/sys/kernel/osrelease");
  if (!release) return ModulePaths();
  const std::string folder = "/lib/modules/" + *release, list = root + folder + "/modules.dep";
  if (const std::string type = waits_below(root.empty() ? "/" : root, list); !type.empty())
    return fail(std::errc(EREMOTE), "{} is not read, because it is on {}, whose server may never answer", folder, type);
  if (const auto dep = read_file(list); dep && !dep->empty()) return paths_of_modules_dep(*dep, folder);
  return paths_of_tree(root, folder);
}

}  // namespace flight
