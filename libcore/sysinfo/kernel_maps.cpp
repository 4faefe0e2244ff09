// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/kernel_maps.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxModules = 16384;
constexpr std::size_t kMaxModuleFiles = 131072;
constexpr std::size_t kMaxNotesBytes = 1U << 20U;

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string_view take_word(std::string_view& line) {
  const std::size_t end = line.find(' ');
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

std::uint64_t number_of(std::string_view text, int base) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

struct KernelSymbols {
  std::uint64_t text = 0, stext = 0, etext = 0, edata = 0;
  bool any = false;
};

// Lines are "ffffffff81000000 T _text", those of modules have "\t[module]" behind the name.
KernelSymbols find_symbols(std::string_view kallsyms) {
  KernelSymbols found;
  while (!kallsyms.empty()) {
    const std::string_view line = take_line(kallsyms);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.size() < space + 4) continue;
    found.any = true;
    if (line[space + 3] != '_') continue;  // all four begin so; most lines end here
    const std::string_view name = line.substr(space + 3);
    const auto value = [&] { return number_of(line.substr(0, space), 16); };
    if (name == "_text") found.text = value();
    if (name == "_stext") found.stext = value();
    if (name == "_etext") found.etext = value();
    if (name == "_edata") found.edata = value();
  }
  return found;
}

std::vector<std::uint8_t> build_id_of_file(const std::string& path) {
  const auto notes = read_file(path, kMaxNotesBytes);
  return notes ? build_id_of_notes(*notes) : std::vector<std::uint8_t>{};
}

// "kernel/fs/nls/nls-utf8.ko.xz" is module nls_utf8; empty for what is no module.
std::string module_name_of(std::string_view path) {
  path.remove_prefix(path.find_last_of('/') + 1);
  const std::size_t suffix = path.find(".ko");
  if (suffix == std::string_view::npos) return {};
  std::string name(path.substr(0, suffix));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

using ModulePaths = std::map<std::string, std::string>;  // name -> path as the running system has it

// depmod's list, where there is one; it is much cheaper than to walk the tree.
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
    if (std::string name = module_name_of(path); !name.empty())
      paths.emplace(std::move(name), path.substr(root.size()));
  }
  return paths;
}

ModulePaths find_module_paths(const std::string& root) {
  const auto release = read_line(root + "/proc/sys/kernel/osrelease");
  if (!release) return {};
  const std::string folder = "/lib/modules/" + *release;
  if (const auto dep = read_file(root + folder + "/modules.dep"); dep && !dep->empty())
    return paths_of_modules_dep(*dep, folder);
  return paths_of_tree(root, folder);
}

// Lines of /proc/modules: "ext4 983040 1 - Live 0xffffffffc0a5b000 (OE)".
std::vector<KernelMap> read_modules(const std::string& root) {
  std::vector<KernelMap> modules;
  const auto text = read_file(root + "/proc/modules");
  if (!text || text->empty()) return modules;  // a kernel without modules has no such file
  const ModulePaths paths = find_module_paths(root);
  std::string_view rest = *text;
  while (!rest.empty() && modules.size() < kMaxModules) {
    std::string_view line = take_line(rest);
    const std::string name(take_word(line));
    const std::uint64_t bytes = number_of(take_word(line), 10);
    for (int i = 0; i < 3; ++i) take_word(line);  // references, users, state
    const std::uint64_t address = number_of(take_word(line), 16);
    if (name.empty() || name.find('/') != std::string::npos || address == 0 || bytes == 0) continue;
    const auto path = paths.find(name);
    modules.push_back({path == paths.end() ? fmt::format("[{}]", name) : path->second, address, bytes, 0,
                       build_id_of_file(fmt::format("{}/sys/module/{}/notes/.note.gnu.build-id", root, name))});
  }
  std::sort(modules.begin(), modules.end(),
            [](const KernelMap& a, const KernelMap& b) { return a.address < b.address; });
  // Since 6.4 the size counts a module's data as well, which lies elsewhere: do not reach into the next one's text.
  for (std::size_t i = 0; i + 1 < modules.size(); ++i)
    modules[i].bytes = std::min(modules[i].bytes, modules[i + 1].address - modules[i].address);
  return modules;
}

}  // namespace

Result<std::vector<KernelMap>> read_kernel_maps(std::string_view kallsyms, const std::string& root) {
  const KernelSymbols symbols = find_symbols(kallsyms);
  if (!symbols.any)
    return fail(std::errc::no_message,
                "/proc/kallsyms is empty: kernel addresses get no names (the kernel needs CONFIG_KALLSYMS)");
  const bool has_text = symbols.text != 0;
  const std::uint64_t start = has_text ? symbols.text : symbols.stext;
  if (start == 0)
    return fail(std::errc::permission_denied,
                "/proc/kallsyms shows no address of _text or _stext: kernel addresses get no names (this needs "
                "CAP_SYSLOG, and kernel.kptr_restrict below 2)");
  const std::uint64_t end = symbols.etext > start ? symbols.etext : symbols.edata;
  if (end <= start)
    return fail(std::errc::bad_message, "/proc/kallsyms has neither _etext nor _edata behind the kernel's start {:#x}",
                start);
  std::vector<KernelMap> maps;
  maps.push_back({has_text ? "[kernel.kallsyms]_text" : "[kernel.kallsyms]_stext", start, end - start, start,
                  build_id_of_file(root + "/sys/kernel/notes")});
  for (KernelMap& module : read_modules(root)) maps.push_back(std::move(module));
  return maps;
}

}  // namespace flight
